"""The relay serves the tasks of its own run, and leads nowhere else."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from simulator import Cluster, Topology
from simulator.journal import read_journal
from tests.simulator._only_run import bare, result_of
from tests.simulator._wire import SECONDS_MAX, Wire, connect_request, eventually, wire


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """A server of this machine that is no address of the run."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def _ask(proxy: str, request: bytes) -> bytes:
    """What the relay answers, to its end or to the end of the head."""
    with socket.create_connection(("127.0.0.1", urlsplit(proxy).port or 0), SECONDS_MAX) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer and (piece := connection.recv(4096)):
            answer += piece
        return answer


def _nobody_came(server: socket.socket) -> bool:
    try:
        server.accept()
    except BlockingIOError:
        return True
    return False


def _turned_away(line: Wire, task: str, address: str, count: int) -> None:
    eventually(lambda: line.network.turned_away.get((task, address)) == count, f"{address!r} to be turned away")


def test_a_connection_without_the_key_is_refused(elsewhere: socket.socket) -> None:
    """Whoever finds the port, as another user of the machine may: neither to a task nor to anything else."""
    with wire() as line:
        proxy = line.network.environ("worker:0")["grpc_proxy"]
        another = proxy.replace(urlsplit(proxy).password or "", "0" * 32)
        for address in (f"127.0.0.1:{line._ports['worker:1']}", f"127.0.0.1:{elsewhere.getsockname()[1]}"):
            plain = f"CONNECT {address} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            for request in (plain, connect_request(address, another), b"CONNECT probe.lockstep/worker:1 H\r\n\r\n"):
                assert _ask(proxy, request).startswith(b"HTTP/1.1 407 ")
        # Told at the first, second and fourth time, so that a stranger does not fill the journal.
        _turned_away(line, "worker:0", "", 4)
        assert line.count().connections == 0
        line.connect()
        assert line.count().connections == 1
        assert _nobody_came(elsewhere)


def test_a_target_outside_of_the_run_is_refused(elsewhere: socket.socket) -> None:
    """Also to a task, under each name of this machine; and ports that are none."""
    with wire() as line:
        proxy = line.network.environ("worker:0")["grpc_proxy"]
        port = elsewhere.getsockname()[1]
        addresses = [f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", f"{socket.gethostname()}:{port}"]
        for address in (*addresses, "example.org:443", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:x", ":1"):
            assert _ask(proxy, connect_request(address, proxy)).startswith(b"HTTP/1.1 403 Not an address of this run")
        _turned_away(line, "worker:0", f"127.0.0.1:{port}", 1)
        assert _nobody_came(elsewhere)


def _reach(port: int) -> list[bytes]:
    """Ask the relay for that port of this machine, and for one on which this task itself listens."""
    proxy = os.environ["grpc_proxy"]  # noqa: SIM112 - the name that gRPC reads
    with socket.create_server(("localhost", 0)) as own:
        ports = (port, own.getsockname()[1])
        return [_ask(proxy, connect_request(f"localhost:{each}", proxy))[:12] for each in ports]


def test_what_a_task_listens_on_is_an_address_of_the_run(elsewhere: socket.socket, tmp_path: Path) -> None:
    """As the dispatcher of a tf.data service is; what is refused is a line in the task's log, and an event."""
    port = elsewhere.getsockname()[1]
    result = result_of(bare(Topology(worker=2), relay=True, out=tmp_path), _reach, port)
    assert {tuple(task.value) for task in result.values()} == {(b"HTTP/1.1 403", b"HTTP/1.1 200")}
    said = f"--- lockstep: worker:1 was not connected to localhost:{port}, which is no address of this run"
    assert said in result["worker:1"].log
    assert "no_grpc_proxy=localhost" in result["worker:1"].log
    found = [event for event in read_journal(tmp_path / "0" / "journal.jsonl") if event["event"] == "turned_away"]
    assert {(event["src"], event["address"]) for event in found} == {
        ("worker:0", f"localhost:{port}"),
        ("worker:1", f"localhost:{port}"),
    }


def test_what_a_child_of_a_program_listens_on_is_one_too(tmp_path: Path) -> None:
    """It is in the session of its task."""
    there, child = tmp_path / "port", tmp_path / "child.py"
    child.write_text(f"""
import pathlib, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    new = pathlib.Path({str(there)!r} + ".new")
    new.write_text(str(server.getsockname()[1]))
    new.rename({str(there)!r})
    server.accept()[0].sendall(b"well")
""")
    script = f"test $LOCKSTEP_TASK = worker:1 || {sys.executable} {child} & wait"
    with (
        bare(Topology(worker=2), relay=True) as cluster,
        cluster.start_command(["sh", "-c", script]) as run,
    ):
        eventually(there.exists, "the child to listen")
        proxy = run.network.environ("worker:1")["grpc_proxy"]
        answer = _ask(proxy, connect_request(f"127.0.0.1:{there.read_text()}", proxy))
        assert answer.startswith(b"HTTP/1.1 200 ")
        run.join()


_GRPC = """
import sys
import tensorflow as tf
{serve}
dataset = tf.data.Dataset.range(8).apply(
    tf.data.experimental.service.distribute("parallel_epochs", f"grpc://{{address}}", job_name="job"))
print("sum", int(sum(dataset.as_numpy_iterator())))
"""
_SERVE = """
service = tf.data.experimental.service
dispatcher = service.DispatchServer()
address = dispatcher.target.partition("://")[2]
worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
"""


@pytest.mark.full
def test_a_tf_data_service_of_a_program_works() -> None:
    """GRPC itself asks with the key, for a dispatcher and a worker on ports of their own; the bytes are counted."""
    program = _GRPC.format(serve=_SERVE)
    with Cluster(Topology(worker=1, chief=1), preload=(), timeout=120, relay=True) as cluster:
        command = f"test $LOCKSTEP_TASK = worker:0 || exec {sys.executable} -c '{program}'"
        result = cluster.run_command(["sh", "-c", command])
    assert "sum 28" in result["chief:0"].log
    assert any(link.src == "chief:0" and link.dst.startswith("localhost:") and link.bytes for link in result.links)
