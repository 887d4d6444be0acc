"""Nodes of a Ray cluster as machines: what is asked for, which nodes those are, and how a site there is led to."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, Topology, UsageError
from simulator.helpers.ray.carrier import Carrier
from simulator.helpers.ray.driver import NoSuchNode, chosen
from simulator.machines.engines.ray import RayNodes
from simulator.machines.far.wire import SocketWire
from tests.simulator._wire import eventually


def _node(address: str, *, cpus: float = 4.0, alive: bool = True, name: str = "", host: str = "") -> dict[str, Any]:
    """As `ray.nodes()` has it."""
    return {
        "NodeID": f"id-of-{address}-{name}",
        "Alive": alive,
        "NodeManagerAddress": address,
        "NodeManagerHostname": host or f"host-{address}",
        "NodeName": name or address,
        "Resources": {"CPU": cpus} if cpus else {},
    }


NODES = [
    _node("10.0.0.1", cpus=0),
    _node("10.0.0.12"),
    _node("10.0.0.4", host="gpu-4"),
    _node("10.0.0.3", alive=False),
    _node("10.0.0.9", name="left"),
    _node("10.0.0.9", name="right"),
]


def test_any_nodes_are_those_that_are_alive_and_those_without_work_last() -> None:
    """In the order of their addresses, so that the same cluster gives the same ones; a head is taken when need be."""
    found = chosen(NODES, [f"ray-{number}" for number in range(5)], anywhere=True)
    assert found == [f"id-of-10.0.0.{number}" for number in ("4-", "9-left", "9-right", "12-", "1-")]
    with pytest.raises(NoSuchNode, match=r"6 nodes are wanted, and 5 of the cluster's are alive: 10\.0\.0\.4, left"):
        chosen(NODES, [f"ray-{number}" for number in range(6)], anywhere=True)


def test_nodes_are_known_by_name_address_or_host() -> None:
    """In the order in which they were named."""
    found = chosen(NODES, ["right", "10.0.0.1", "gpu-4"], anywhere=False)
    assert found == ["id-of-10.0.0.9-right", "id-of-10.0.0.1-", "id-of-10.0.0.4-"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["10.0.0.3"], r"no node that is alive is called 10\.0\.0\.3; the cluster has 10\.0\.0\.4, left, right"),
        (["10.0.0.9"], r"2 nodes are called 10\.0\.0\.9"),
        (["10.0.0.4", "gpu-4"], r"10\.0\.0\.4 and gpu-4 are the same node"),
    ],
)
def test_a_name_is_of_one_node(names: list[str], why: str) -> None:
    """That is alive, and is no other machine of the run: a machine that is lost shall not take another one along."""
    with pytest.raises(NoSuchNode, match=why):
        chosen(NODES, names, anywhere=False)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray is found here, whether it is installed or not; it is not imported."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.usefixtures("installed")
def test_nodes_are_asked_for_by_number_or_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbered machines have names of their own, by which tasks are placed."""
    assert RayNodes.parse("ray:2").names == ("ray-0", "ray-1")
    named = RayNodes.parse("ray:10.0.0.4,10.0.0.12")
    assert (named.names, named.anywhere) == (("10.0.0.4", "10.0.0.12"), False)
    assert Cluster(Topology(worker=2), machines="ray:2", place={"worker:0": "ray-1"}).place == {
        "worker:0": "ray-1",
        "worker:1": "ray-0",
    }
    before = RayNodes.parse("ray:2").key
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert RayNodes.parse("ray:2").key != before


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ray", "write how many nodes, or which"),
        ("ray:", "write how many nodes, or which"),
        ("ray:0", "from 1 to 64 nodes"),
        ("ray:65", "from 1 to 64 nodes"),
        ("ray:a,a", "twice"),
        ("ray:a,-b", "'-b' is no name"),
    ],
)
def test_what_is_no_number_and_no_name_is_refused(text: str, why: str) -> None:
    """Before anything starts."""
    with pytest.raises(UsageError, match=why):
        Cluster(Topology(worker=2), machines=text)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("address", ["ray://head:10001", "local"])
def test_a_cluster_of_which_this_machine_is_no_node_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's client goes through another process, and `local` would start a cluster that nobody has asked for."""
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UsageError, match="of which this machine has to be a node"):
        Cluster(Topology(worker=2), machines="ray:2")


def test_without_ray_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one sentence, before anything starts; who asks for no nodes does not need it."""
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"needs Ray, which is not installed: pip install 'tf-lockstep\[ray\]'"):
        Cluster(Topology(worker=2), machines="ray:2")
    Cluster(Topology(worker=2), machines="env MACHINE={}:m0,m1")


ECHO = """
import os, sys
print(os.environ.get("ONLY_A_WORKER", "as the node has it"), flush=True)
for line in sys.stdin:
    print(line.upper(), end="", flush=True)
print("said at last", file=sys.stderr)
sys.exit(3)
"""


def test_a_carrier_hands_over_what_goes_to_a_process_and_comes_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has the environment of its worker's parent; how it has ended can be asked."""
    monkeypatch.setenv("ONLY_A_WORKER", "set in this process after its start, as Ray does in a worker")
    carrier = Carrier([sys.executable, "-c", ECHO])
    assert b"".join(_until(carrier, b"\n")) == b"as the node has it\n"
    carrier.write(b"one\ntwo\n")
    assert b"".join(_until(carrier, b"TWO\n")) == b"ONE\nTWO\n"
    carrier.write(b"")
    assert carrier.read() == b""
    assert carrier.end() == "its site ended with exit code 3: said at last"
    carrier.write(b"nobody reads this")


NICE = """
import os
from simulator.helpers.ray.carrier import Carrier
os.nice(15)
try:
    os.setpriority(os.PRIO_PROCESS, 0, 14)
    wanted = os.getpriority(os.PRIO_PROCESS, os.getppid())
except PermissionError:
    wanted = 15 + os.getpriority(os.PRIO_PROCESS, os.getppid())
carrier = Carrier(["nice"])
said = carrier.read()
carrier.write(b"")
carrier.end()
print(int(said), wanted)
"""


def test_a_site_competes_as_its_node_does() -> None:
    """And not as a worker of Ray's, which stands behind all others, where whoever runs it may change that."""
    done = subprocess.run([sys.executable, "-c", NICE], capture_output=True, text=True, timeout=60, check=True)
    had, wanted = done.stdout.split()
    assert had == wanted


def _until(carrier: Carrier, end: bytes) -> list[bytes]:
    """What it reads, until something ends so."""
    pieces: list[bytes] = []
    while not b"".join(pieces).endswith(end):
        pieces.append(carrier.read())
        assert pieces[-1]
    return pieces


def test_the_end_of_a_socket_says_why(tmp_path: Path) -> None:
    """As whoever carries has written it; what was said before is heard, in order, and what is sent arrives."""
    near, far = socket.socketpair()
    why = tmp_path / "m0.why"
    wire = SocketWire(near, why)
    heard: list[bytes] = []
    ended: list[str] = []
    wire.listen(heard.append, ended.append)
    wire.send(b"to ")
    wire.send(b"the site")
    with far:
        assert far.recv(8, socket.MSG_WAITALL) == b"to the s"
        far.sendall(b"from the site")
        why.write_text("the node is dead\n")
    eventually(lambda: bool(ended), "the end of the stream")
    assert (b"".join(heard), ended) == (b"from the site", ["the node is dead"])
    wire.close(1.0)


def test_a_socket_is_left_although_nobody_reads(tmp_path: Path) -> None:
    """As behind a node that is silent: what is still to be sent holds nobody up."""
    near, far = socket.socketpair()
    wire = SocketWire(near, tmp_path / "m0.why")
    ended: list[str] = []
    wire.listen(lambda data: None, ended.append)
    wire.send(b"x" * 2**24)
    with far:
        wire.close(0.0)
    assert ended == ["its stream ended"]
    assert near.fileno() == -1
