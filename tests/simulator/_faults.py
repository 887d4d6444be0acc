"""Fake tasks for tests of faults: plain Python steps, and a conversation through the relay."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

from simulator import Cluster, FaultPlan, RunResult, Topology
from simulator.faults import Fault
from simulator.journal import read_journal
from tests.simulator._wire import connect_request


def plan_of(*faults: Fault | str, **options: Any) -> FaultPlan:
    """A plan of faults, which may be in the form of the command line."""
    made = (FaultPlan.parse_fault(fault) if isinstance(fault, str) else fault for fault in faults)
    return FaultPlan(faults=tuple(made), **options)


def own_agent() -> Any:
    """The agent of the task in which this is called."""
    from simulator.agent import current

    agent = current()
    assert agent is not None
    return agent


def steps(count: int, seconds: float) -> int:
    """Announce so many steps, some time apart; returns the incarnation."""
    agent = own_agent()
    for number in range(1, count + 1):
        threading.Event().wait(seconds)
        agent.step(number)
    return int(agent.spec.incarnation)


def _steps_of_the_struck(count: int, seconds: float, out: str, struck: int) -> int:
    """`steps` after which none returns before so many faults have struck: who is to be struck is still there then."""
    incarnation = steps(count, seconds)
    while len(events(Path(out), "fired")) < struck:  # until the run's timeout
        threading.Event().wait(0.01)
    return incarnation


def run_steps(
    plan: FaultPlan, out: Path, *, workers: int = 2, count: int = 12, seconds: float = 0.01, struck: int = 0
) -> RunResult:
    """Run `steps` in each worker under this plan; none returns before `struck` of its faults have struck."""
    with Cluster(Topology(worker=workers), preload=(), timeout=30, faults=plan, out=out) as cluster:
        if struck:
            return cluster.run(_steps_of_the_struck, count, seconds, str(out), struck)
        return cluster.run(steps, count, seconds)


def events(out: Path, *kinds: str) -> list[dict[str, Any]]:
    """The events of these kinds of the first run."""
    return [event for event in read_journal(out / "0" / "journal.jsonl") if event["event"] in kinds]


def effects(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the one fault of the first run has done, and what came of it when it was undone."""
    (fired,), (undone,) = events(out, "fired"), events(out, "undone")
    return fired["effect"], undone["effect"]


def talk(count: int, seconds: float) -> int:
    """worker:1 sends 1000 bytes in each step and waits for the same from worker:0; returns how often it reconnected."""
    agent = own_agent()
    address = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][0]
    if agent.spec.task == "worker:0":
        _echo(address)
        return 0
    connection, again = connect(address), 0
    for number in range(1, count + 1):
        while not _one_round(connection):
            connection.close()
            connection = connect(address)
            again += 1
        agent.step(number)
        threading.Event().wait(seconds)
    connection.sendall(b"end")
    return again


def _echo(address: str) -> None:
    host, _, port = address.partition(":")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, int(port)))
        listener.listen(8)
        listener.settimeout(20)
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                while data := connection.recv(1 << 16):
                    if data == b"end":
                        return
                    connection.sendall(data)


def connect(address: str) -> socket.socket:
    """A connection of this task to a server that will listen at this address, through the task's relay."""
    proxy = os.environ["grpc_proxy"]  # noqa: SIM112 - the name that gRPC reads
    for _ in range(400):
        connection = socket.create_connection(("127.0.0.1", int(proxy.rpartition(":")[2])))
        with contextlib.suppress(OSError):
            connection.sendall(connect_request(address, proxy))
            if b" 200 " in connection.recv(4096):
                connection.settimeout(1.0)
                return connection
        connection.close()
        threading.Event().wait(0.02)
    raise ConnectionError(f"nobody listens at {address}")


def _one_round(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x" * 1000)
        left = 1000
        while left:
            data = connection.recv(left)
            if not data:
                return False
            left -= len(data)
    except OSError:
        return False
    return True
