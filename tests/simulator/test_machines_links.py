"""Links between tasks on several machines, each of which has a relay; all of them are this one."""

from __future__ import annotations

import itertools
import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, Link, LockstepError, RunFailed, Topology, UsageError
from simulator.faults import Delay, Fault, MachineLost, Partition, Rate
from simulator.helpers.relay.door import request
from simulator.network.network import summed
from simulator.wire.network import LinkCounters
from tests.simulator._faults import connect, events, own_agent, plan_of, talk
from tests.simulator._only_run import result_of
from tests.simulator._wire import eventually, exactly
from tests.simulator.test_machines_lost import SHORT

TWO = "env MACHINE={}:m0,m1"
AT: dict[str, Any] = {"step": 2, "of": "worker:1"}


def _cluster(**options: Any) -> Cluster:
    return Cluster(Topology(worker=2), preload=(), timeout=60, machines=TWO, **options)


@pytest.mark.full
def test_links_are_counted_by_the_relay_of_who_connects(tmp_path: Path) -> None:
    """Both directions; and a link with a delay has it from the first connection on, there and back."""
    with _cluster(relay=True) as cluster:
        links = {(link.src, link.dst): link for link in cluster.run(talk, 5, 0.0).links}
    assert links["worker:1", "worker:0"].bytes == 5 * 1000 + len(b"end")
    assert links["worker:0", "worker:1"].bytes == 5 * 1000
    # It tries again until the other one listens.
    assert links["worker:1", "worker:0"].connections >= 1
    assert links["worker:0", "worker:1"].connections == 0
    slow = [Link(src="worker:0", dst="worker:1", delay="30ms")]
    with _cluster(links=slow, out=tmp_path / "out") as cluster, cluster.start(talk, 5, 0.0) as run:
        trips = [run.network.probe(*pair) for pair in (("worker:0", "worker:1"), ("worker:1", "worker:0"))]
        run.join()
    assert min(trips) >= 0.06
    steps = [event["at"] for event in events(tmp_path / "out", "step")]
    assert min(later - step for step, later in itertools.pairwise(steps)) >= 0.06


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Delay(src="worker:0", dst="worker:1", **AT, delay="30ms", duration="200ms"),
            "round_trip_seconds",
        ),
        # On one machine tests/simulator/test_faults_links.py cuts links in the quick profile.
        pytest.param(
            Partition(src="worker:0", dst="worker:1", **AT, mode="refuse", duration="200ms"),
            "probe",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Rate(src="worker:0", dst="worker:1", **AT, rate="100KB/s", duration="400ms"),
            "delivered_in_0.2_seconds",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Delay(src="worker:0", dst="worker:1", bytes_="5KB", delay="30ms", duration="200ms"),
            "round_trip_seconds",
            marks=pytest.mark.full,
        ),
        pytest.param(
            Partition(src="worker:1", dst="worker:0", **AT, mode="blackhole", duration="2s"),
            "probe",
            marks=pytest.mark.full,
        ),
    ],
)
def test_faults_of_links_are_put_in_force_and_proved(fault: Fault, said: str, tmp_path: Path) -> None:
    """By a probe from the machine of its source; the conversation goes on afterwards."""
    result = result_of(_cluster(faults=plan_of(fault, seed=1), out=tmp_path), talk, 30, 0.02)
    fired, undone = events(tmp_path, "fired", "undone")
    assert said in fired["effect"]
    assert undone["problem"] is None
    assert result["worker:1"].steps == 30


@pytest.mark.full
def test_a_fault_of_a_link_without_traffic_is_none(tmp_path: Path) -> None:
    """As on one machine: nothing came by while it was in force."""
    plan = plan_of(Delay(src="worker:2", dst="worker:0", time="10ms", delay="30ms", duration="100ms"))
    made = Cluster(Topology(worker=3), preload=(), timeout=60, machines=TWO, faults=plan, out=tmp_path)
    with made as cluster, pytest.raises(RunFailed, match="nothing came by on the link while it was in force"):
        cluster.run(_talk_of_two, 20, 0.02)


def _talk_of_two(count: int, seconds: float) -> int:
    agent = own_agent()
    return 0 if agent.spec.task == "worker:2" else talk(count, seconds)


def _floods(count: int) -> float:
    """worker:0 sends so much to worker:1 on a connection of its own and on one of the other's; how long that takes."""
    config = json.loads(os.environ["TF_CONFIG"])
    own, other = (config["cluster"]["worker"][abs(config["task"]["index"] - each)] for each in (0, 1))
    host, _, port = own.rpartition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, int(port)))
        listener.listen()
        ends = [connect(other), listener.accept()[0]]
    began = time.monotonic()
    for end in ends:
        end.settimeout(20.0)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(_send if config["task"]["index"] == 0 else _receive, ends, [count] * 2))
    for end in ends:
        end.close()
    return time.monotonic() - began


def _send(end: socket.socket, count: int) -> None:
    end.sendall(b"x" * count)
    assert exactly(end, 1)


def _receive(end: socket.socket, count: int) -> None:
    exactly(end, count)
    end.sendall(b"!")


@pytest.mark.full
def test_all_connections_share_the_rate_of_a_link_whoever_has_opened_them() -> None:
    """Each relay for itself would let twice as much through."""
    thin = Link(src="worker:0", dst="worker:1", rate="100KB/s", one_way=True)
    result = result_of(_cluster(links=[thin]), _floods, 40_000)
    assert result["worker:0"].value >= 0.75
    links = {(link.src, link.dst): link for link in result.links}
    assert (links["worker:0", "worker:1"].bytes, links["worker:1", "worker:0"].bytes) == (80_000, 2)
    assert links["worker:0", "worker:1"].connections >= 1


def test_a_trigger_by_bytes_is_met_to_the_byte(tmp_path: Path) -> None:
    """On the machine of who sends them; the way back follows, which is kept on the other one."""
    link = Link(src="worker:0", dst="worker:1", delay="80ms", after_bytes="3KB")
    result_of(_cluster(links=[link], out=tmp_path / "out"), talk, 10, 0.0)
    (fired,) = events(tmp_path / "out", "link_fired")
    assert (fired["src"], fired["dst"], fired["bytes"]) == ("worker:0", "worker:1", 3000)
    steps = [event["at"] for event in events(tmp_path / "out", "step")]
    assert steps[0] < fired["at"] < steps[-1]
    took = [later - step for step, later in itertools.pairwise(steps)]
    assert min(took[:2]) < 0.08
    assert min(took[2:]) >= 0.08
    assert min(took[-3:]) >= 0.16


@pytest.mark.full
def test_a_trigger_by_connections_is_met_once(tmp_path: Path) -> None:
    """By the relay of who connects; it is tried again until the link does not refuse any more."""
    link = Link(src="worker:1", dst="worker:0", refuse="300ms", after_connections=1)
    with _cluster(links=[link], out=tmp_path / "out") as cluster:
        links = {(link.src, link.dst): link for link in cluster.run(talk, 3, 0.0).links}
    (fired,) = events(tmp_path / "out", "link_fired")
    assert (fired["src"], fired["dst"], fired["connections"]) == ("worker:1", "worker:0", 1)
    assert links["worker:1", "worker:0"].refused > 1


@pytest.mark.full
def test_conditions_stay_when_a_machine_is_lost(tmp_path: Path) -> None:
    """On the machines on which the job goes on; what the lost one had counted is not known, and all else is."""
    slow = Link(src="worker:0", dst="worker:1", delay="30ms")
    plan = FaultPlan(faults=(MachineLost(task="worker:1", step=2),))
    options: dict[str, Any] = {"links": [slow], "faults": plan, "restarts": 1, "out": tmp_path / "out"}
    made = Cluster(Topology(worker=2), preload=(), timeout=60, machines="env MACHINE={}:m0,m1,m2", **options)
    made._engine.lease = SHORT  # type: ignore[union-attr]
    with made as cluster:
        result = cluster.run(talk, 5, 0.0)
    assert [task.machine for task in result.values()] == ["m0", "m2"]
    links = {(link.src, link.dst): link for link in result.links}
    assert links["worker:1", "worker:0"].bytes == 5 * 1000 + len(b"end")
    assert 7 * 1000 <= links["worker:0", "worker:1"].bytes <= 8 * 1000
    steps = [event["at"] for event in events(tmp_path / "out", "step") if event["incarnation"] == 1]
    assert len(steps) == 5
    assert min(later - step for step, later in itertools.pairwise(steps)) >= 0.06


@pytest.mark.full
def test_a_trigger_that_a_lost_machine_has_counted_for_is_not_waited_for_any_more() -> None:
    """The run fails, and says why: what is left of the count would be met too late."""
    link = Link(src="worker:1", dst="worker:0", delay="30ms", after_bytes="1GB")
    made = Cluster(Topology(worker=2), preload=(), timeout=60, machines=TWO, links=[link], restarts=1)
    made._engine.lease = SHORT  # type: ignore[union-attr]
    with made as cluster, cluster.start(talk, 10_000, 0.01) as run:
        run.wait_step("worker:1", 2)
        run.placement.machine("worker:1").power_off()
        with pytest.raises(LockstepError, match=r"after_bytes=1GB waits for a trigger, .* a lost machine had counted"):
            run.join()


def _answer(address: str, request: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10.0) as door:
        door.sendall(request)
        return door.recv(4096)


def test_a_relay_connects_other_relays_of_its_run_with_tasks_of_its_machine_only() -> None:
    """Its port is open to whoever reaches the machine: without the run's key, and elsewhere, nobody is connected."""
    with _cluster(relay=True) as cluster, cluster.start(talk, 10_000, 0.01) as run:
        run.wait_step("worker:1", 1)
        first, second = run.network._far.there
        key = run.network._far._made["chain_key"]
        server = run._starter.addresses["worker:0"]
        assert b" 200 " in _answer(first.address, request(server, key, "worker:1"))
        for relay, refused in (
            (first, request(server, "0" * 32, "worker:1")),
            (first, request(server, key)),
            (first, request(run._starter.addresses["worker:1"], key, "worker:1")),
            (first, request("127.0.0.1:22", key, "worker:1")),
            (second, request(server, key, "worker:1")),
        ):
            assert b" 407 " in _answer(relay.address, refused)
        # The relay tells it after its answer.
        eventually(lambda: run.network.turned_away.get(("", ""), 0) > 0, "the relay tells whom it has turned away")


@pytest.mark.parametrize(
    "waits",
    [
        {"links": [Link(src="worker:0", dst="worker:1", hold=True, after_connections=1)]},
        {"faults": [Partition(src="worker:0", dst="worker:1", bytes_="1KiB")]},
    ],
)
def test_what_a_lost_machine_would_have_counted_is_refused(waits: dict[str, Any]) -> None:
    """Before anything starts; without a machine that is taken away it is not."""
    lost = MachineLost(task="worker:1", step=1)
    faults = waits.get("faults", [])
    with pytest.raises(
        UsageError, match="waits for what a link carries, and a fault of kind machine_lost takes a mach"
    ):
        _cluster(links=waits.get("links", []), faults=FaultPlan(faults=(*faults, lost)))
    _cluster(links=waits.get("links", []), faults=FaultPlan(faults=tuple(faults)))


def test_counters_of_relays_are_added() -> None:
    """Each directed link is there once, in order; the time is that of the relay that saw more of it."""
    links = [
        LinkCounters("b", "a", bytes=1, connections=1, seconds=2.0),
        LinkCounters("a", "b", bytes=3, delivered=3),
        LinkCounters("b", "a", bytes=10, seconds=1.0),
    ]
    assert summed(links) == (
        LinkCounters("a", "b", bytes=3, delivered=3),
        LinkCounters("b", "a", bytes=11, connections=1, seconds=2.0),
    )
