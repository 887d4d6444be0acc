"""Machines with addresses, files and clocks of their own: what a run over them says, and what becomes of it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, Link, RunFailed, Topology
from simulator.faults import Cut
from simulator.journal import read_journal
from simulator.machines.engines.command import Commands
from simulator.machines.far.checks import MachinesUnavailable
from simulator.machines.far.lease import Lease
from tests.simulator._faults import connect, talk
from tests.simulator._wire import connect_request, eventually
from tests.simulator.lab.keeper import PORT
from tests.simulator.lab.machines import ROOT, Lab, lab


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab whose cables nobody pulls."""
    with lab(tmp_path_factory.mktemp("shared")) as made:
        yield made


def _speaks(directory: str) -> dict[str, Any]:
    """Listen as a task's server does, and exchange a word with the other task; then one step."""
    import json

    from simulator import step
    from simulator.agent import now

    config = json.loads(os.environ["TF_CONFIG"])
    own = config["cluster"]["worker"][config["task"]["index"]]
    other = config["cluster"]["worker"][1 - config["task"]["index"]]
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    server.bind(("", int(own.rpartition(":")[2])))
    server.listen()
    host, _, port = other.rpartition(":")
    while True:
        try:
            socket.create_connection((host, int(port)), 5).close()
            break
        except ConnectionRefusedError:
            threading.Event().wait(0.01)
    server.accept()
    step()
    Path("/tmp/own").write_text("mine")
    return {
        "host": socket.gethostname(),
        "address": host,
        "clock": time.monotonic(),
        "now": now(),
        "tmp": sorted(os.listdir("/tmp")),  # noqa: PTH208
        "shared": Path(directory, "there").read_text(),
    }


def test_tasks_meet_by_the_addresses_of_their_machines(two: Lab, tmp_path: Path) -> None:
    """Each with its own host name, /tmp and clock; what happened is told by this one's clock."""
    (two.shared / "there").write_text("seen by all")
    began = time.monotonic()
    out = tmp_path / "out"
    with Cluster(Topology(worker=2), preload=(), timeout=60, machines=two.machines, out=out) as cluster:
        result = cluster.run(_speaks, str(two.shared))
        seen = [cluster.sees(two.shared), cluster.sees(Path("/dev/shm"))]
        clocks = [machine.clock for machine in cluster._machines]  # type: ignore[attr-defined]
    over = time.monotonic()
    values = [task.value for task in result.values()]
    assert [value["host"] for value in values] == ["m0", "m1"]
    assert [value["address"] for value in values] == ["198.18.1.11", "198.18.1.10"]
    assert [round((value["clock"] - over) / 1000) for value in values] == [1, 2]
    assert all(began < value["now"] < over for value in values)
    assert seen == [True, False]
    assert {value["shared"] for value in values} == {"seen by all"}
    steps = [event["at"] for event in read_journal(out / "0" / "journal.jsonl") if event["event"] == "step"]
    assert len(steps) == 2
    assert all(began < at < over for at in steps)
    for number, clock in enumerate(clocks, start=1):
        # Offsets of the lab are exact: both clocks are this machine's.
        assert abs(clock.offset - 1000 * number) <= clock.error
        assert clock.error <= 0.001


def _waits(directory: str) -> None:
    """Say every while that it is alive, by the time that all machines share; worker 0 fails when it is told to."""
    alive = Path(directory, os.environ["LOCKSTEP_TASK"])
    while not (alive.name == "worker:0" and alive.with_name("fail").exists()):
        _say_alive(alive)
        threading.Event().wait(0.05)
    raise ConnectionError("derived")


def _say_alive(path: Path) -> None:
    """Write the time that all machines share, at once: whoever does may be killed inside of it."""
    new = path.with_suffix(".new")
    new.write_text(repr(time.clock_gettime(time.CLOCK_REALTIME)))
    new.replace(path)


def _events(out: Path) -> dict[str, float]:
    """When each kind of event was first written."""
    found: dict[str, float] = {}
    for event in read_journal(out / "0" / "journal.jsonl"):
        found.setdefault(event["event"], event["t"])
    return found


def _pulled(lab: Lab, pull: Any, lease: Lease) -> tuple[RunFailed, float, dict[str, float]]:
    """What a run says of it, after how many seconds the machine was named, and each task was alive last."""
    out = lab.shared / "out"
    made = Cluster(Topology(worker=2), preload=(), timeout=60, machines=lab.machines, out=out)
    made._engine.lease = lease  # type: ignore[union-attr]
    with made as cluster:
        with cluster.start(_waits, str(lab.shared)) as run:
            alive = [lab.shared / f"worker:{number}" for number in range(2)]
            eventually(lambda: all(path.exists() and path.read_text() for path in alive), "the tasks")
            pull(1)
            at, wall = time.monotonic(), time.time()
            eventually(lambda: "machine_silent" in _events(out), "the silence")
            (lab.shared / "fail").touch()
            with pytest.raises(RunFailed) as caught:
                run.join()
        named = _events(out)["machine_lost"]
        last = {path.name: float(path.read_text()) - wall for path in alive}
    return caught.value, named - at, last


@pytest.mark.full
def test_the_tasks_behind_a_pulled_cable_end_before_their_machine_is_given_up(tmp_path: Path) -> None:
    """Their own site ends them, and only then is the machine named: before a peer's error, which had come earlier."""
    with lab(tmp_path) as made:
        failed, named, last = _pulled(made, made.cut, Lease(every=0.1, silent=0.3, seconds=1.0, margin=1.0))
    assert (failed.root_cause.task, failed.root_cause.kind) == ("worker:1", "MachineLost")
    assert "machine m1, on which it ran, is lost: nothing was heard of it for 2 s" in failed.root_cause.message
    assert last["worker:1"] < named
    events = _events(tmp_path / "out")
    assert events["machine_silent"] < events["error"] < events["machine_lost"]
    assert [cause.kind for cause in failed.causes] == ["MachineLost", "ConnectionError"]


def _trains() -> list[float]:
    """The loss of each step of a small training, over all workers."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weight = tf.Variable(1.0)

    @tf.function
    def step(number: Any) -> Any:
        def replica() -> Any:
            rank = tf.distribute.get_replica_context().replica_id_in_sync_group
            share = tf.cast(rank + 1, tf.float32) * number
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", weight * share)
            weight.assign_sub(0.01 * gradient)
            return gradient

        return strategy.run(replica)

    # One replica in each task.
    return [float(strategy.experimental_local_results(step(tf.constant(float(number))))[0]) for number in range(1, 6)]


@pytest.mark.full
def test_a_training_gives_the_same_numbers_as_on_one_machine(two: Lab) -> None:
    """Four workers, two on each of two machines, over their cables."""
    with Cluster(Topology(worker=4), timeout=120) as here:
        expected = [task.value for task in here.run(_trains).values()]
    with Cluster(Topology(worker=4), timeout=120, machines=two.machines) as cluster:
        found = [task.value for task in cluster.run(_trains).values()]
    assert found == expected
    assert len({tuple(losses) for losses in found}) == 1


@pytest.mark.full
def test_that_takes_no_longer_than_is_promised(tmp_path: Path) -> None:
    """The tasks are gone within 11 s, and the machine is named within 12 s."""
    with lab(tmp_path) as made:
        failed, named, last = _pulled(made, made.cut, Lease())
    assert (failed.root_cause.task, failed.root_cause.kind) == ("worker:1", "MachineLost")
    assert 9.0 < last["worker:1"] < 11.0
    assert last["worker:1"] < named < 12.0


@pytest.mark.full
def test_a_machine_without_power_is_named(tmp_path: Path) -> None:
    """As of one whose cable is pulled, for who looks from here; its tasks were gone at once."""
    with lab(tmp_path) as made:
        failed, named, last = _pulled(made, made.power_off, Lease())
    assert (failed.root_cause.task, failed.root_cause.kind) == ("worker:1", "MachineLost")
    assert last["worker:1"] < 1.0
    assert named < 12.0


def _goes_on(directory: str) -> str:
    """Say when it began; the first incarnations say every while that they are alive, and never end."""
    from simulator import step
    from simulator.agent import current

    agent = current()
    assert agent is not None
    alive = Path(directory, f"{agent.spec.task}-{agent.spec.incarnation}")
    _say_alive(alive.with_suffix(".began"))

    def say() -> None:
        while True:
            _say_alive(alive)
            threading.Event().wait(0.02)

    threading.Thread(target=say, daemon=True).start()
    step()
    if not agent.spec.incarnation:
        threading.Event().wait()
    return socket.gethostname()


@pytest.mark.full
def test_a_job_whose_cable_was_cut_goes_on_elsewhere_when_nobody_is_left_behind_it(tmp_path: Path) -> None:
    """On the machine that had nothing to do; the cut-off worker had ended before another one began in its place."""
    plan = FaultPlan(faults=(Cut(task="worker:1", step=1),))
    with lab(tmp_path, count=3) as made:
        options: dict[str, Any] = {"preload": (), "timeout": 90, "faults": plan, "restarts": 1}
        with Cluster(Topology(worker=2), machines=made.machines, cable=made.cable, **options) as cluster:
            result = cluster.run(_goes_on, str(made.shared))
    assert [task.value for task in result.values()] == ["m0", "m2"]
    last = float((tmp_path / "worker:1-0").read_text())
    began = float((tmp_path / "worker:1-1.began").read_text())
    cut_off = float((tmp_path / "worker:1-0.began").read_text())
    # It went on behind the cable, for as long as its lease was good.
    assert 5.0 < last - cut_off < 13.0
    assert last < began


@pytest.mark.full
def test_a_driver_that_is_killed_leaves_no_task_on_any_machine(two: Lab) -> None:
    """Within seconds, by the end of its streams."""
    script = textwrap.dedent(f"""
        from simulator import Cluster, Topology
        from tests.simulator.lab.test_lab import _waits
        with Cluster(Topology(worker=2), preload=(), machines={two.machines!r}) as cluster:
            cluster.run(_waits, {str(two.shared)!r})
    """)
    alive = [two.shared / f"worker:{number}" for number in range(2)]
    with subprocess.Popen([sys.executable, "-c", script]) as driver:
        try:
            eventually(lambda: all(path.exists() and path.read_text() for path in alive), "the tasks")
        finally:
            driver.kill()
            killed = time.time()
    eventually(lambda: time.time() - killed > 4, "time to pass")
    assert all(float(path.read_text()) - killed < 3 for path in alive)


@pytest.mark.full
def test_links_have_their_conditions_between_machines(two: Lab, tmp_path: Path) -> None:
    """Each relay is on its machine, where a probe is made and tasks connect to it; what both count is added up.

    A trigger is met on a machine with another clock, and told by this one's.
    """
    links = [
        Link(src="worker:0", dst="worker:1", delay="30ms"),
        Link(src="worker:1", dst="worker:0", jitter="1ms", one_way=True, after_bytes="2KB"),
    ]
    options: dict[str, Any] = {"preload": (), "timeout": 60, "machines": two.machines, "out": tmp_path / "out"}
    with Cluster(Topology(worker=2), links=links, **options) as cluster, cluster.start(talk, 3, 0.0) as run:
        trips = [run.network.probe(*pair) for pair in (("worker:0", "worker:1"), ("worker:1", "worker:0"))]
        result = run.join()
    (fired,) = [
        event for event in read_journal(tmp_path / "out" / "0" / "journal.jsonl") if event["event"] == "link_fired"
    ]
    steps = [
        event["at"] for event in read_journal(tmp_path / "out" / "0" / "journal.jsonl") if event["event"] == "step"
    ]
    assert fired["bytes"] == 2000
    assert steps[0] - 0.01 < fired["at"] < steps[1] + 0.01
    assert min(trips) >= 0.06 - 0.001  # the jitter, whose trigger may have been met by then
    assert {(link.src, link.dst): link.bytes for link in result.links} == {
        ("worker:0", "worker:1"): 3000,
        ("worker:1", "worker:0"): 3003,
    }


def _of_relays(host: str, status: str, *, remote: bool) -> list[Any]:
    """Connections of this machine: of its own relay, which is at `host`, or with that of another machine there."""
    import psutil

    found = [each for each in psutil.net_connections("tcp") if each.status == status]
    ends = [(each, each.raddr if remote else each.laddr) for each in found]
    return [each for each, end in ends if end and end.ip == host and end.port != PORT]


def _asks(directory: str) -> bytes:
    """Worker 1 has its machine's relay stand still until the cable is mended; what worker 0 was answered meanwhile."""
    import json

    import psutil

    config, shared = json.loads(os.environ["TF_CONFIG"]), Path(directory)
    address = str(config["cluster"]["worker"][1])
    host, _, port = address.rpartition(":")
    if config["task"]["index"] == 1:
        # Nobody else listens at this address: servers are not there yet.
        relays = [psutil.Process(each.pid) for each in _of_relays(host, "LISTEN", remote=False)]
        for relay in relays:
            relay.suspend()
        (shared / "standing").touch()
        while not (shared / "mended").exists():  # for as long as the run may last
            threading.Event().wait(0.02)
        for relay in relays:
            relay.resume()
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((host, int(port)))
            server.listen()
            said = b""
            while said != b"hello":
                # What was asked for behind the cable may come first, from who has given up.
                with contextlib.suppress(ConnectionResetError):
                    said = server.accept()[0].recv(5)
        return b""
    eventually((shared / "standing").exists, "the other machine's relay")
    proxy = os.environ["grpc_proxy"]  # noqa: SIM112 - the name that gRPC reads
    with socket.create_connection(("127.0.0.1", int(proxy.rpartition(":")[2]))) as asking:
        asking.sendall(connect_request(address, proxy))
        eventually(lambda: bool(_of_relays(host, "ESTABLISHED", remote=True)), "the relays to meet")
        (shared / "asked").touch()
        asking.settimeout(20.0)
        answer = asking.recv(4096)
    (shared / "answered").touch()
    with connect(address) as again:
        again.sendall(b"hello")
    return answer


@pytest.mark.full
def test_a_relay_that_is_cut_off_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """Whoever asks for a task behind a pulled cable is told that it cannot be reached; when it is mended, it can."""
    with lab(tmp_path) as made:
        options: dict[str, Any] = {"preload": (), "timeout": 90, "machines": made.machines, "relay": True}
        cluster = Cluster(Topology(worker=2), **options)
        cluster._engine.lease = Lease(seconds=60.0)  # type: ignore[union-attr]
        with cluster, cluster.start(_asks, str(tmp_path)) as run:
            eventually((tmp_path / "asked").exists, "worker 0 to ask")
            made.cut(1)
            eventually((tmp_path / "answered").exists, "an answer")
            made.mend(1)
            (tmp_path / "mended").touch()
            result = run.join()
    assert result["worker:0"].value.startswith(b"HTTP/1.1 502 ")
    refused = {(link.src, link.dst): link.refused for link in result.links}
    assert refused["worker:0", "worker:1"] >= 1


def test_machines_that_do_not_reach_each_other_are_refused_before_anything_starts(
    two: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is not shared is, too; each with one sentence."""
    monkeypatch.chdir("/dev/shm")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(MachinesUnavailable, match=r"machine m[01] does not see /dev/shm as this one does"):
        Commands.parse(two.machines).__enter__()
