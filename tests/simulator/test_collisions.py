"""Tests that clusters started at the same time do not collide, and that a start is repeated when they do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from simulator import Cluster, Run, RunFailed, Topology
from simulator.machines.local import machine
from tests.simulator._faults import own_agent

_SCRIPT = """
import json, os, socket, sys, threading
from simulator import Cluster, Topology
def body(name):
    config = json.loads(os.environ["TF_CONFIG"])
    addresses = [address.rpartition(":") for address in config["cluster"]["worker"]]
    index = config["task"]["index"]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # as TensorFlow does with TF_GRPC_REUSE_PORT=1
        server.bind(("", int(addresses[index][2])))
        server.listen()
        heard = []
        def accept():
            connection, _ = server.accept()
            with connection:
                heard.append(connection.recv(100).decode())
        listener = threading.Thread(target=accept)
        listener.start()
        peer = addresses[1 - index]
        for _ in range(1000):
            try:
                connection = socket.create_connection((peer[0], int(peer[2])), timeout=20)
                break
            except ConnectionRefusedError:
                threading.Event().wait(0.01)
        with connection:
            connection.sendall(name.encode())
        listener.join()
    return heard
with Cluster(Topology(worker=2), preload=(), timeout=60) as cluster:
    result = cluster.run(body, sys.argv[1])
    assert [task.value for task in result.values()] == [[sys.argv[1]]] * 2, result
"""


@pytest.mark.full
def test_ten_clusters_from_ten_processes_at_once_never_collide() -> None:
    """Each task binds its own port and hears its own peer, never a stranger's."""
    command = [sys.executable, "-c", _SCRIPT]
    processes = [
        subprocess.Popen([*command, f"cluster-{number}"], stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
        for number in range(10)
    ]
    errors = [process.communicate(timeout=100)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 10, b"\n".join(errors).decode()


def _serve_own_address() -> int:
    """Bind the address of this task as a TensorFlow server would, and report a conflict in its words."""
    config = json.loads(os.environ["TF_CONFIG"])
    port = int(config["cluster"]["worker"][config["task"]["index"]].rpartition(":")[2])
    with socket.socket() as server:
        try:
            server.bind(("", port))
            server.listen()
        except OSError as error:
            raise RuntimeError(f"Could not start gRPC server: {error}") from error
    return port


@pytest.fixture
def rival() -> Iterator[int]:
    """A port on which a stranger listens."""
    with socket.socket() as stranger:
        stranger.bind(("", 0))
        stranger.listen()
        yield stranger.getsockname()[1]


def _unheld_ports(monkeypatch: pytest.MonkeyPatch, ports: list[int]) -> None:
    """Give runs these ports one after the other, without holding them."""
    proposals = iter(ports)

    @contextmanager
    def unheld(names: tuple[str, ...]) -> Iterator[dict[str, int]]:
        yield {name: next(proposals) for name in names}

    monkeypatch.setattr(machine, "hold_ports", unheld)


def test_a_start_is_repeated_on_new_ports_after_a_conflict(rival: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first start finds the stranger on its port, the second one succeeds elsewhere."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        free = probe.getsockname()[1]
    _unheld_ports(monkeypatch, [rival, free])
    with Cluster(Topology(worker=1), preload=(), timeout=20) as cluster:
        assert cluster.run(_serve_own_address)["worker:0"].value == free


def _serve_and_fail() -> None:
    """Bind as `_serve_own_address` does, announce a step, and fail."""
    _serve_own_address()
    agent = own_agent()
    agent.step(1)
    raise ValueError("asked for")


def test_what_was_asked_of_a_run_is_asked_of_its_repetition(rival: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gates and expected failures hold for each attempt, not for the first one alone."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        free = probe.getsockname()[1]
    _unheld_ports(monkeypatch, [rival, free])

    def pass_gate(run: Run) -> bool:
        stood = run.wait_gate("worker:0", "step:1")
        if stood:
            run.open_gate("worker:0")
        run.join()
        return stood

    with Cluster(Topology(worker=1), preload=(), timeout=20) as cluster:
        cluster.set_gate("worker:0", "step:1")
        cluster.expect("worker:0", error="ValueError", match="asked for")
        assert cluster.attempt(pass_gate, lambda: cluster.start(_serve_and_fail))


def test_a_conflict_that_stays_fails_the_run(rival: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After three attempts the conflict is reported, never skipped."""
    _unheld_ports(monkeypatch, [rival] * 3)
    with (
        Cluster(Topology(worker=1), preload=(), timeout=20) as cluster,
        pytest.raises(RunFailed, match="Could not start gRPC server"),
    ):
        cluster.run(_serve_own_address)
