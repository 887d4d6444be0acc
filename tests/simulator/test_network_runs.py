"""Runs whose tasks talk through the relay, without TensorFlow."""

from __future__ import annotations

import os
import signal

import pytest

from simulator import Link, RunFailed, Topology, UsageError
from simulator.journal import read_journal
from tests.simulator._only_run import bare, result_of
from tests.simulator._wire import connect_request


def talk(count: int = 1000) -> int:
    """Worker 1 asks worker 0, through the proxy of its environment, for `count` bytes."""
    import json
    import os
    import socket
    import time

    config = json.loads(os.environ["TF_CONFIG"])
    host, _, port = config["cluster"]["worker"][0].rpartition(":")
    if config["task"]["index"] == 0:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((host, int(port)))
            server.listen()
            with server.accept()[0] as connection:
                connection.recv(10)
                connection.sendall(bytes(count))
                return len(connection.recv(10))
    proxy = os.environ["grpc_proxy"]  # noqa: SIM112 - the name that gRPC reads
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.create_connection(("127.0.0.1", int(proxy.rpartition(":")[2])), 20) as connection:
            connection.sendall(connect_request(f"{host}:{port}", proxy))
            if b" 200 " in connection.recv(100):
                connection.sendall(b"please")
                got = 0
                while got < count:
                    got += len(connection.recv(1 << 16))
                return got
    return -1


def test_a_run_proves_what_its_links_carried() -> None:
    """The counters are in the result and in the journal, and each task has a proxy of its own."""
    with bare(Topology(worker=2), relay=True) as cluster:
        result = cluster.run(talk)
        links = {(link.src, link.dst): link for link in result.links}
        assert links["worker:1", "worker:0"].bytes == 6
        assert links["worker:0", "worker:1"].bytes == 1000
        assert links["worker:1", "worker:0"].connections >= 1
        written = [event for event in read_journal(result.directory / "journal.jsonl") if event["event"] == "link"]
        assert {(event["src"], event["dst"], event["bytes"]) for event in written} == {
            ("worker:0", "worker:1", 1000),
            ("worker:1", "worker:0", 6),
        }


def test_without_links_there_is_no_relay() -> None:
    """Tasks are then connected directly, and asking for the network says how to get one."""
    with bare(Topology(worker=1)) as cluster:
        with cluster.start(lambda: None) as run, pytest.raises(UsageError, match="relay=True"):
            _ = run.network
        result = cluster.run(lambda: [name for name in os.environ if "proxy" in name])
    assert (result["worker:0"].value, result.links) == ([], ())


def test_a_trigger_that_is_not_met_fails_the_run() -> None:
    """A planned condition that never came into force is an error, with the link's text."""
    link = Link(src="worker:1", dst="worker:0", hold=True, after_bytes="1MB")
    with bare(Topology(worker=2), links=[link]) as cluster, pytest.raises(RunFailed, match="was not met") as failed:
        cluster.run(talk)
    assert [(cause.task, cause.kind) for cause in failed.value.causes] == [("network", "LinkWithoutEffect")]


def test_a_link_that_carries_nothing_fails_the_run() -> None:
    """A delay on a link that nobody uses proves nothing."""
    link = Link(src="worker:2", dst="worker:0", delay="1ms")
    with bare(Topology(worker=3), links=[link]) as cluster, pytest.raises(RunFailed, match="nothing came by"):
        cluster.run(lambda: None)


def test_a_link_with_an_effect_does_not_fail_the_run() -> None:
    """A delay and a met trigger on a link with traffic are as planned."""
    links = [
        Link(src="worker", dst="worker", delay="1ms"),
        Link(src="worker:0", dst="worker:1", stall="10ms", after_bytes="500B"),
    ]
    assert result_of(bare(Topology(worker=2), links=links), talk)["worker:1"].value == 1000


def test_the_end_of_the_relay_fails_the_run_at_once() -> None:
    """The relay's death is the root cause, whatever the tasks make of it."""

    def wait() -> None:
        import threading

        threading.Event().wait(25)

    with bare(Topology(worker=2), relay=True) as cluster, cluster.start(wait) as run:
        os.kill(run.network.pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match="network failed first: RelayEnded") as failed:
            run.join()
    assert failed.value.result.seconds < 20
