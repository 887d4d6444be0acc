"""What the relay costs without conditions, next to a direct connection, and how well it keeps a delay."""

from __future__ import annotations

import base64
import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any
from urllib.parse import urlsplit

from benchmarks.measure import Figure, main, median, seconds_of
from simulator import Cluster, Link, Network, Topology

_DELAYS_MS = (0.3, 1, 5, 20, 50)
_ROUND_TRIPS = 400
_DELAYED_ROUND_TRIPS = 150
_MEGABYTES = 300
_BULK_ROUNDS = 5
_CLUSTER_ROUNDS = 3
_STEPS = 20
_WORKERS = 4


@contextlib.contextmanager
def _connections() -> Iterator[tuple[Network, list[tuple[socket.socket, socket.socket]]]]:
    """A network of two tasks that are sockets of this process; a direct connection between them and a relayed one."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = server.getsockname()[1]
        addresses = {"worker:0": "127.0.0.1:1", "worker:1": f"127.0.0.1:{port}"}
        network = stack.enter_context(Network(Topology(worker=2), addresses))
        network.wait_ready()
        proxy = urlsplit(network.environ("worker:0")["grpc_proxy"])
        relay = proxy.port
        pairs = []
        for address in (port, relay):
            near = stack.enter_context(socket.create_connection(("127.0.0.1", address)))
            if address == relay:
                words = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
                near.sendall(
                    f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nProxy-Authorization: Basic {words}\r\n\r\n".encode()
                )
                assert b" 200 " in near.recv(100)
            far = stack.enter_context(server.accept()[0])
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pairs.append((near, far))
        yield network, pairs


def _round_trip_ms(pair: tuple[socket.socket, socket.socket]) -> float:
    """There and back with 64 bytes, both ends in one thread, so that no switch between threads is measured."""
    near, far = pair
    began = time.monotonic()
    near.sendall(bytes(64))
    far.recv(64)
    far.sendall(bytes(64))
    near.recv(64)
    return (time.monotonic() - began) * 1e3


def added_round_trip() -> Figure:
    """Round trip through the relay without conditions less that of a direct connection, taken in turns."""
    direct, relayed = [], []
    with _connections() as (_, pairs):
        for _ in range(_ROUND_TRIPS):
            direct.append(_round_trip_ms(pairs[0]))
            relayed.append(_round_trip_ms(pairs[1]))
    return Figure(
        name="relay, round trip added, no conditions",
        figure=median(relayed) - median(direct),
        unit="ms",
        target=0.3,
        samples=_ROUND_TRIPS,
    )


@cache
def _delay_errors() -> dict[float, tuple[list[float], list[float]]]:
    """For each delay: by how much a plain sleep of that length exceeds it, and a round trip with it, in ms."""
    found = {}
    with _connections() as (network, pairs):
        for delay in _DELAYS_MS:
            link = Link(src="worker:0", dst="worker:1", delay=f"{delay}ms", one_way=True)
            slept, relayed = [], []
            with network.set(link):
                for _ in range(_DELAYED_ROUND_TRIPS):
                    slept.append(seconds_of(partial(time.sleep, delay / 1e3)) * 1e3 - delay)
                    relayed.append(_round_trip_ms(pairs[1]) - delay)
            assert min(relayed) >= 0, f"a byte came before its delay of {delay} ms"
            found[delay] = (slept, relayed)
    return found


def delay_error_median() -> Figure:
    """Median excess of a round trip over the delay, the worst of 0.3 to 50 ms; the peer is a plain sleep."""
    errors = _delay_errors().values()
    return Figure(
        name="relay, delay of 0.3-50 ms, excess, median",
        figure=max(median(relayed) for _, relayed in errors),
        unit="ms",
        target=0.5,
        peer=max(median(slept) for slept, _ in errors),
        samples=_DELAYED_ROUND_TRIPS * len(_DELAYS_MS),
    )


def delay_error_p99() -> Figure:
    """The 99th percentile of all; where nothing gets a core in time, the plain sleep shows it as well."""
    errors = _delay_errors().values()
    return Figure(
        name="relay, delay of 0.3-50 ms, excess, 99th pct",
        figure=_p99([excess for _, relayed in errors for excess in relayed]),
        unit="ms",
        target=2.0,
        peer=_p99([excess for slept, _ in errors for excess in slept]),
        samples=_DELAYED_ROUND_TRIPS * len(_DELAYS_MS),
    )


def _p99(samples: list[float]) -> float:
    return statistics.quantiles(samples, n=100)[98]


def bulk() -> Figure:
    """Send 300 MB through one link, where the target is 300 MB/s, in turns with a direct connection."""
    direct, relayed = [], []
    with _connections() as (_, pairs):
        for _ in range(_BULK_ROUNDS):
            direct.append(seconds_of(lambda: _send(pairs[0], _MEGABYTES * 10**6)))
            relayed.append(seconds_of(lambda: _send(pairs[1], _MEGABYTES * 10**6)))
    return Figure(
        name=f"relay, {_MEGABYTES} MB through one link",
        figure=median(relayed),
        unit="s",
        target=1.0,
        peer=median(direct),
        samples=_BULK_ROUNDS,
    )


def _send(pair: tuple[socket.socket, socket.socket], count: int) -> None:
    near, far = pair
    writer = threading.Thread(target=near.sendall, args=(bytes(count),))
    writer.start()
    buffer = bytearray(1 << 20)
    left = count
    while left:
        left -= far.recv_into(buffer, min(left, len(buffer)))
    writer.join()


def all_reduce() -> Figure:
    """All-reduce 4 MB over 4 workers, through the relay without conditions and directly, in turns."""
    direct, relayed = [], []
    with Cluster(Topology(worker=_WORKERS)) as plain, Cluster(Topology(worker=_WORKERS), relay=True) as through:
        plain.run(median_all_reduce_ms)
        for _ in range(_CLUSTER_ROUNDS):
            direct.append(plain.run(median_all_reduce_ms)["worker:0"].value)
            result = through.run(median_all_reduce_ms)
            relayed.append(result["worker:0"].value)
            assert sum(link.bytes for link in result.links) > _STEPS * 4e6 * _WORKERS, "the relay was not used"
    return Figure(
        name=f"relay, {_WORKERS} workers, all-reduce of 4 MB",
        figure=median(relayed),
        unit="ms",
        target=1.5,
        limit_of="ratio",
        peer=median(direct),
        samples=_CLUSTER_ROUNDS,
    )


def median_all_reduce_ms() -> float:
    """Sum 4 MB over all workers in each of 20 steps and return the median time of a step."""
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ones = tf.ones([1_000_000])

    @tf.function
    def step() -> Any:
        def replica() -> Any:
            return tf.reduce_max(tf.distribute.get_replica_context().all_reduce("SUM", ones + 0.0))

        return strategy.run(replica)

    def once() -> None:
        value = float(strategy.experimental_local_results(step())[0].numpy())
        assert value == strategy.num_replicas_in_sync, value

    once()
    return median([seconds_of(once) * 1e3 for _ in range(_STEPS)])


MEASUREMENTS = (added_round_trip, delay_error_median, delay_error_p99, bulk, all_reduce)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
