"""What two tasks do to see what the link between them does: packets that are lost, rates, and delays."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import statistics
import time
from pathlib import Path
from urllib.parse import urlsplit

from simulator.helpers.relay.door import request

_PORT = 5050
_SECONDS_MAX = 20.0
# The kernel sends a first packet of TCP that was not answered again after a second.
_FIRST_SECONDS = 0.5
# So many fit into the buffer of a receiver that a busy machine leaves standing; what is too much for it is lost, too.
_AT_ONCE = 100
_LATE_SECONDS = 0.05
_PAYLOAD_BYTES = 1400
# Of UDP, IP and Ethernet, which a rate counts as well.
_HEADER_BYTES = 8 + 20 + 14


def datagrams(directory: str, count: int) -> int:
    """worker:0 sends so many datagrams to worker:1; how many each has sent, or got.

    Args:
        directory: an empty one, which both see; they say there what they would else have to send.
        count: how many, in hundreds.
    """
    place = Path(directory)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        if _index() == 1:
            bound.bind(("", _PORT))
            (place / "ready").touch()
            return received(bound, place, count)
        _wait(place / "ready")
        return sent(bound, ("worker-1", _PORT), place, count)


def sent(bound: socket.socket, to: tuple[str, int], place: Path, count: int) -> int:
    """Send so many datagrams, the next hundred of them when the last one has been taken."""
    for number in range(1, count + 1):
        bound.sendto(b"x", to)
        if number % _AT_ONCE == 0:
            (place / f"sent-{number}").touch()
            _wait(place / f"taken-{number}")
    return count


def received(bound: socket.socket, place: Path, count: int) -> int:
    """How many have come when so many were sent."""
    bound.settimeout(_LATE_SECONDS)
    came = 0
    for number in range(_AT_ONCE, count + 1, _AT_ONCE):
        _wait(place / f"sent-{number}")
        with contextlib.suppress(TimeoutError):
            while bound.recv(16):
                came += 1
        (place / f"taken-{number}").touch()
    return came


def greetings(directory: str, count: int) -> int:
    """worker:0 opens so many connections to worker:1; how many first packets were sent, or answered.

    Args:
        directory: as of `datagrams`.
        count: how many.
    """
    place = Path(directory)
    if _index() == 1:
        with socket.create_server(("", _PORT), backlog=count):
            (place / "ready").touch()
            _wait(place / "answered")
        return count
    _wait(place / "ready")
    poll = select.poll()
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            opener = stack.enter_context(socket.socket())
            opener.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                opener.connect(("worker-1", _PORT))
            poll.register(opener, select.POLLOUT)
        time.sleep(_FIRST_SECONDS)
        answered = len(poll.poll(0))
    (place / "answered").touch()
    return answered


def stream_rate(directory: str, rate: int) -> float:
    """worker:0 sends two seconds' worth of bytes to worker:1; how many a second each has sent, or got."""
    count, done = 2 * rate, 0
    with _connection(Path(directory)) as connection:
        began = time.monotonic()
        if _index() == 0:
            connection.sendall(bytes(count))
            connection.recv(1)
        else:
            while done < count:
                done += len(connection.recv(1 << 18)) or count
            connection.sendall(b"!")
        return count / (time.monotonic() - began)


def datagram_rate(directory: str, rate: int) -> float:
    """worker:0 sends twice what the rate allows in datagrams, for a second; bytes a second that came, with headers."""
    place = Path(directory)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        if _index() == 1:
            bound.bind(("", _PORT))
            (place / "ready").touch()
            bound.settimeout(_SECONDS_MAX)
            bound.recv(_PAYLOAD_BYTES)
            began = last = time.monotonic()
            count = 0
            bound.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                while True:
                    bound.recv(_PAYLOAD_BYTES)
                    count, last = count + 1, time.monotonic()
            return count * (_PAYLOAD_BYTES + _HEADER_BYTES) / (last - began)
        _wait(place / "ready")
        began, sent = time.monotonic(), 0
        while (passed := time.monotonic() - began) < 1.0:
            while sent * _PAYLOAD_BYTES < 2 * rate * passed:
                with contextlib.suppress(OSError):  # the queue is full
                    bound.sendto(bytes(_PAYLOAD_BYTES), ("worker-1", _PORT))
                sent += 1
            time.sleep(0.001)
        return sent * (_PAYLOAD_BYTES + _HEADER_BYTES)


def answers(directory: str, count: int) -> float:
    """worker:0 sends single bytes that worker:1 sends back; the median of the seconds that each took."""
    took = []
    with _connection(Path(directory)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.monotonic()
            if _index() == 0:
                connection.sendall(b"?")
                connection.recv(1)
            else:
                connection.sendall(connection.recv(1))
            took.append(time.monotonic() - began)
    return statistics.median(took)


def _connection(place: Path) -> socket.socket:
    """That of worker:0 to the address of worker:1, through the relay if there is one."""
    host, _, port = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"][1].rpartition(":")
    if _index() == 1:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind(("", int(port)))
            server.listen()
            (place / "listens").touch()
            return server.accept()[0]
    _wait(place / "listens")
    proxy = os.environ.get("grpc_proxy")  # noqa: SIM112 - the name that gRPC reads
    if proxy is None:
        return socket.create_connection((host, int(port)))
    found = urlsplit(proxy)
    connection = socket.create_connection((found.hostname or "", found.port or 0))
    connection.sendall(request(f"{host}:{port}", found.password or ""))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1) or b"\r\n\r\n"
    return connection


def _index() -> int:
    return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])


def _wait(path: Path) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path.name} did not come to be")
        time.sleep(0.005)
