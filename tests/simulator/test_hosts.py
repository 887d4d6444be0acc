"""Tasks with hosts of their own: names, addresses, isolation, real packets, and nothing left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from simulator import Cluster, DeadlineExceeded, HostsUnavailable, Link, RunFailed, Topology, UsageError
from simulator.helpers.doorkeeper import Descriptor
from simulator.network import hosts
from simulator.network.hosts import Hosts
from simulator.wire.hosts import plan_hosts
from tests.simulator._faults import own_agent
from tests.simulator._hosts import around, hosts_or_skip, stream
from tests.simulator._only_run import failure_of, result_of
from tests.simulator._wire import eventually

bare = partial(Cluster, preload=(), timeout=30, network="namespaces")
MB = 1_000_000


@pytest.fixture(autouse=True)
def _hosts() -> None:
    hosts_or_skip()


def test_each_task_has_a_host_of_its_own() -> None:
    """Name, interfaces and process ids are its own, the user is the one outside, and TF_CONFIG names hosts."""
    with bare(Topology(worker=3)) as cluster:
        found = {task: outcome.value for task, outcome in cluster.run(around).tasks.items()}
    assert [seen["name"] for seen in found.values()] == ["worker-0", "worker-1", "worker-2"]
    assert found["worker:0"]["interfaces"] == ["lo", "worker-1", "worker-2"]
    assert len({seen["pid"] for seen in found.values()}) == 1
    for seen in found.values():
        assert seen["user"] == os.getuid()
        assert seen["peer"] == plan_hosts(Topology(worker=2))[1].address
        assert json.loads(seen["config"])["cluster"]["worker"] == [f"worker-{number}:2222" for number in range(3)]
        # Every loopback interface is its own: nobody listens on the port where all the others could.
        assert seen["listens"]


def test_without_hosts_tasks_share_this_machine() -> None:
    """The control: in the first tier they have its name and its interfaces, and addresses on loopback."""
    with Cluster(Topology(worker=2), preload=(), timeout=30) as cluster:
        result = cluster.run(lambda: (socket.gethostname(), len(socket.if_nameindex())))
    here = (socket.gethostname(), len(socket.if_nameindex()))
    assert [task.value for task in result.tasks.values()] == [here, here]


def test_bytes_arrive_and_are_counted() -> None:
    """A stream over the cable arrives whole; the counters have its bytes, in packets, and none was lost."""
    result = result_of(bare(Topology(worker=2)), stream, MB)
    assert [result[task].value[0] for task in ("worker:0", "worker:1")] == [MB, MB]
    there = next(link for link in result.links if link.src == "worker:0")
    # A packet has up to 20 + 60 bytes of headers; the busier the machine, the more and the smaller ones TCP makes. And
    # where an answer is late it sends a segment again, though none was lost (tail loss probe, RFC 8985).
    assert MB < there.bytes == there.delivered < MB + result["worker:0"].value[2] + 80 * there.packets
    assert there.lost == 0


def test_lost_packets_are_sent_again() -> None:
    """With a loss of 5 % the stream arrives whole, and about as many packets were lost."""
    with bare(Topology(worker=2), links=[Link(src="worker:0", dst="worker:1", loss="5%", one_way=True)]) as cluster:
        result = cluster.run(stream, 4 * MB)
    assert result["worker:1"].value[0] == 4 * MB
    there, back = sorted(result.links, key=lambda link: link.src)
    # 2800 packets of 1500 bytes: six standard deviations are 2.5 %.
    assert there.packets > 2500
    assert 0.025 < there.lost / there.packets < 0.075
    assert there.dropped > there.lost * 500
    assert back.lost == 0


def test_a_rate_is_kept() -> None:
    """4 MB at 10 MB/s take 0.4 s, less what the queue takes ahead; without the rate far less."""
    seconds = []
    for links in ([], [Link(src="worker:0", dst="worker:1", rate="10MB/s")]):
        seconds.append(result_of(bare(Topology(worker=2), links=links), stream, 4 * MB)["worker:0"].value[1])
    free, limited = seconds
    assert free < 0.2
    assert 0.33 < limited < 2.0


def test_tcp_outlives_a_partition() -> None:
    """What is sent during a blackhole comes afterwards on the same connection, since only packets were lost."""
    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(stream, 10_000, 2) as run:
            assert run.wait_gate("worker:0", "step:1")
            with run.network.set(Link(src="worker:0", dst="worker:1", blackhole=True)):
                with pytest.raises(DeadlineExceeded):
                    run.network.probe("worker:0", "worker:1", 0.3)
                run.open_gate("worker:0")
                eventually(
                    lambda: run.network.counters()["worker:0", "worker:1"].lost > 0, "a packet of worker:0 to be lost"
                )
                assert run.tasks["worker:1"].steps == 1
            assert run.network.probe("worker:0", "worker:1", 1.0) < 0.5
            result = run.join()
    assert result["worker:1"].value[0] == 20_000


def test_a_timed_partition_ends_by_itself() -> None:
    """`blackhole=1s` is over after that time, without anybody's doing."""
    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(stream, 10) as run:
            assert run.wait_gate("worker:0", "step:1")
            run.network.set(Link(src="worker:0", dst="worker:1", blackhole="1s"))
            with pytest.raises(DeadlineExceeded):
                run.network.probe("worker:0", "worker:1", 0.1)
            assert run.network.probe("worker:0", "worker:1", 5.0) < 0.2
            run.open_gate("worker:0")
            run.join()


def test_conditions_in_the_kernel_lie_on_top_of_each_other() -> None:
    """A rule that is removed leaves those before it, all are gone when cleared, and counters go on."""
    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(stream, 2 * MB) as run:
            run.network.set(Link(src="worker:0", dst="worker:1", rate="1GB/s"))
            with run.network.set(Link(src="worker:0", dst="worker:1", rate="500kB/s", loss="1%")):
                pass
            assert run.wait_gate("worker:0", "step:1")
            run.network.clear()
            run.open_gate("worker:0")
            result = run.join()
    assert result["worker:0"].value[1] < 1.0
    assert next(link for link in result.links if link.src == "worker:0").bytes > 2 * MB


def test_the_relay_delays_between_hosts() -> None:
    """A delay is the relay's, on the host of the sender, since netem is often missing; packets count as before."""
    with bare(Topology(worker=2), links=[Link(src="*", dst="*", delay="20ms", rate="50MB/s")]) as cluster:
        cluster.set_gate("worker:0", "step:3")
        with cluster.start(stream, 1000, 3) as run:
            assert run.wait_gate("worker:0", "step:3")
            assert 0.04 < run.network.probe("worker:0", "worker:1") < 0.2
            run.open_gate("worker:0")
            result = run.join()
    assert result["worker:0"].value[1] > 3 * 0.04
    there = next(link for link in result.links if (link.src, link.dst) == ("worker:0", "worker:1"))
    assert there.bytes == 3000
    assert there.packets > 3


def test_nobody_outside_reaches_a_task() -> None:
    """Neither a task's port nor its address exist on this machine, and the relay's way in takes probes only."""
    with bare(Topology(worker=2), relay=True) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(stream, 10) as run:
            assert run.wait_gate("worker:0", "step:1")
            here = {address.address for found in psutil.net_if_addrs().values() for address in found}
            assert not here & {host.address for host in plan_hosts(Topology(worker=2))}
            assert 2222 not in _ports()
            assert 2222 in _ports(run.tasks["worker:1"].pid)
            ports = _ports_of(run.network.pid)
            assert len(ports) == 2
            for port in ports:
                with socket.create_connection(("127.0.0.1", port), 5) as door:
                    door.sendall(b"CONNECT worker-1:2222 HTTP/1.1\r\n\r\n")
                    assert door.recv(100) == b""
            run.open_gate("worker:0")
            run.join()


def _ports(pid: int | None = None) -> dict[int, str]:
    """Local TCP ports in the network of a process, by default this one, and the inodes of their sockets."""
    lines = Path(f"/proc/{pid or 'self'}/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    return {int(row[1].rpartition(":")[2], 16): row[9] for row in rows}


def _ports_of(pid: int) -> set[int]:
    """Those of this network whose socket a process holds."""
    held = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    return {port for port, inode in _ports().items() if f"socket:[{inode}]" in held}


@pytest.mark.parametrize(
    ("network", "marked"),
    [("loopback", True), ("loopback", False), ("namespaces", True), ("namespaces", False)],
)
def test_what_leaves_its_group_ends_with_the_run(network: str, marked: bool) -> None:
    """A daemon in a session of its own is found by its environment, or by who has adopted it, or ends with its host."""

    def start_daemon() -> None:
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            os.close(read)
            os.execvpe(
                "sleep", ["sleep", f"600.{number}"], dict(os.environ) if marked else {"PATH": os.environ["PATH"]}
            )
        os.close(write)
        os.read(read, 1)  # the daemon has become sleep, or cannot

    number = int.from_bytes(os.urandom(4), "big")
    result_of(bare(Topology(worker=1), network=network), start_daemon)
    found = [
        process for process in psutil.process_iter(["cmdline"]) if f"600.{number}" in (process.info["cmdline"] or ())
    ]
    for process in found:
        process.kill()
    assert found == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_seen_as_one(number: signal.Signals) -> None:
    """The process outside ends as the task inside did."""

    def fall() -> None:
        signal.signal(number, signal.SIG_DFL) if number == signal.SIGTERM else None
        os.kill(os.getpid(), number)

    failure = failure_of(bare(Topology(worker=1)), fall)
    assert failure.result["worker:0"].exit == -number


def test_an_unmodified_program_has_a_host() -> None:
    """`run_command` starts programs in hosts too, and their exit codes come through."""
    with bare(Topology(worker=2)) as cluster:
        result = cluster.run_command(["uname", "-n"])
        assert [task.log.strip() for task in result.tasks.values()] == ["worker-0", "worker-1"]
        with pytest.raises(RunFailed) as failed:
            cluster.run_command(["sh", "-c", "exit 7"])
    assert {task.exit for task in failed.value.result.tasks.values()} <= {7, -signal.SIGTERM, -signal.SIGKILL}
    assert failed.value.result[failed.value.causes[0].task].exit == 7


def test_a_restarted_task_comes_back_to_its_host() -> None:
    """The next incarnation has the same name and address."""

    def once() -> str:
        agent = own_agent()
        agent.step(1)
        return f"{socket.gethostname()} {agent.spec.incarnation}"

    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:1", "step:1")
        with cluster.start(once) as run:
            assert run.wait_gate("worker:1", "step:1")
            run.restart("worker:1")
            result = run.join()
    assert result["worker:1"].value == "worker-1 1"


def test_a_loss_that_loses_nothing_fails_the_run() -> None:
    """A planned condition has to do something; the message says how many packets there were."""
    links = [Link(src="worker:0", dst="worker:1", loss="0.0001%")]
    with bare(Topology(worker=2), links=links) as cluster, pytest.raises(RunFailed, match="packets was lost on link"):
        cluster.run(stream, 10)


def test_a_run_whose_keeper_is_killed_fails() -> None:
    """Nobody keeps the conditions any more, so the run says so instead of going on."""
    with bare(Topology(worker=2)) as cluster:
        cluster.set_gate("worker:0", "step:1")
        with cluster.start(stream, 10) as run:
            assert run.wait_gate("worker:0", "step:1")
            assert run.network.keeper is not None
            os.kill(run.network.keeper, signal.SIGKILL)
            with pytest.raises(RunFailed, match="network failed first: KeeperEnded"):
                run.join()


def test_nothing_outlives_a_killed_parent() -> None:
    """After SIGKILL of the parent the tasks, their doorkeepers, the keeper and the hosts are gone."""
    script = textwrap.dedent("""
        import os, signal, sys, threading
        from simulator import Cluster, Topology
        def wait():
            threading.Event().wait()
        with Cluster(Topology(worker=2), preload=(), network="namespaces") as cluster, cluster.start(wait) as run:
            spaces = {os.readlink(f"/proc/{task.pid}/ns/net") for task in run.tasks.values()}
            sys.stdout.write(" ".join(spaces))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=60, check=False)
    spaces = set(done.stdout.decode().split())
    assert done.returncode == -9
    assert len(spaces) == 2
    eventually(lambda: not spaces & set(_network_namespaces()), "the hosts to vanish")


def _network_namespaces() -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            yield str(Path(f"/proc/{process.pid}/ns/net").readlink())
        except OSError:
            continue


@pytest.mark.parametrize(
    ("topology", "options", "message"),
    [
        (Topology(), {"network": "namespaces"}, "one local process has no network"),
        (Topology(worker=33), {"network": "namespaces"}, "up to 32 tasks"),
        (Topology(worker=2), {"network": "docker"}, "'docker' is unknown; it is one of loopback, namespaces"),
        (Topology(worker=2), {"links": [Link(src="*", dst="*", loss="1%")]}, "needs packets, so a host for each task"),
    ],
    ids=["local", "too many", "unknown", "loss without packets"],
)
def test_what_cannot_be_had_is_said_before_anything_starts(
    topology: Topology, options: dict[str, object], message: str
) -> None:
    """Each is a usage error."""
    with pytest.raises(UsageError, match=message):
        Cluster(topology, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["1", "0%", "101%", "x", "-1%"])
def test_a_loss_is_a_percentage(loss: str) -> None:
    """Anything else is a usage error that shows the form."""
    with pytest.raises(UsageError, match=r"for example 1% or 0\.5%"):
        Link(src="*", dst="*", loss=loss)


def test_a_loss_has_no_trigger() -> None:
    """The kernel counts neither bytes nor connections of a task."""
    with pytest.raises(UsageError, match="loss has no trigger"):
        Link(src="*", dst="*", loss="1%", after_bytes="1MB")


def test_a_machine_without_namespaces_is_no_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What was refused is reported with the way to find out more, and never replaced by the other tier."""
    monkeypatch.setattr(hosts, "_keep", _refused_keeper)
    with pytest.raises(HostsUnavailable, match=r"Operation not permitted; `lockstep doctor` says"):
        Hosts(Topology(worker=2), tmp_path).__enter__()


def _refused_keeper(control: object, doors: Descriptor, plan: object) -> None:
    with socket.socket(fileno=doors.number) as door:
        door.send(b"PermissionError: Operation not permitted")


@pytest.mark.parametrize("installed", [True, False])
def test_only_the_keeper_needs_pyroute2(installed: bool, tmp_path: Path) -> None:
    """The caller's process never imports it, and where it is missing the message says how to get it."""
    script = textwrap.dedent("""
        import pathlib, sys
        from simulator import HostsUnavailable, Topology
        from simulator.network import Hosts
        try:
            with Hosts(Topology(worker=2), pathlib.Path(sys.argv[1])):
                sys.stdout.write("made")
        except HostsUnavailable as error:
            sys.stdout.write(str(error))
        sys.exit("pyroute2" in sys.modules)
    """)
    paths = [str(Path(__file__).parents[2])]
    if not installed:
        (tmp_path / "pyroute2.py").write_text("raise ImportError('there is no pyroute2')")
        paths.insert(0, str(tmp_path))
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert ("pip install pyroute2" in done.stdout) is not installed
    assert (done.stdout == "made") is installed


def test_hosts_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    """Making and leaving them again and again costs nothing that stays."""

    def cycle() -> tuple[int, int]:
        with Hosts(Topology(worker=2), tmp_path) as made:
            made.probe("worker:0", "worker:1", 5.0)
        gc.collect()  # what earlier tests have left as well
        return psutil.Process().num_fds(), threading.active_count()

    cycle()
    first = cycle()
    assert cycle() == first
