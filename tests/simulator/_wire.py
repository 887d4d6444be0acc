"""Fake tasks for tests of the relay: plain sockets in this process, one listener for each task."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from simulator import Network, Topology
from simulator.network import LinkCounters

SECONDS_MAX = 20.0
# How long nothing must come before a test believes that nothing comes.
_SILENCE_SECONDS = 0.05


def connect_request(address: str, proxy: str) -> bytes:
    """What gRPC sends to such a proxy for a connection to this address."""
    found = urlsplit(proxy)
    words = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
    return f"CONNECT {address} HTTP/1.1\r\nHost: x\r\nProxy-Authorization:Basic {words}\r\n\r\n".encode()


class Refused(Exception):
    """Raised when the relay does not connect."""


class Wire:
    """Two or more fake tasks `worker:N` whose connections go through a relay."""

    def __init__(self, network: Network, servers: dict[str, socket.socket], stack: contextlib.ExitStack) -> None:
        self.network = network
        self._servers = servers
        self._ports = {name: server.getsockname()[1] for name, server in servers.items()}
        self._stack = stack

    def open(self, src: str, dst: str) -> socket.socket:
        """Ask the relay, as gRPC does, to connect `src` to `dst`; the opener's end, before the relay has answered."""
        proxy = self.network.environ(src)["grpc_proxy"]
        where = (urlsplit(proxy).hostname, urlsplit(proxy).port)
        opener = self._stack.enter_context(socket.create_connection(where, SECONDS_MAX))
        opener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = self._ports[dst]
        opener.sendall(connect_request(f"127.0.0.1:{port}", proxy))
        return opener

    def connect(self, src: str = "worker:0", dst: str = "worker:1") -> tuple[socket.socket, socket.socket]:
        """A connection that `src` opens to `dst`: the opener's end and the other one.

        Raises:
            Refused: the relay answers with anything but 200.
        """
        opener = self.open(src, dst)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            piece = opener.recv(1)
            if not piece:
                raise Refused("closed")
            head += piece
        if b" 200 " not in head:
            raise Refused(head.decode())
        return opener, self.accept(dst)

    def accept(self, dst: str) -> socket.socket:
        """The next connection that reaches `dst`."""
        accepted, _ = self._servers[dst].accept()
        self._stack.enter_context(accepted).settimeout(SECONDS_MAX)
        return accepted

    def leave(self, task: str) -> None:
        """Stop listening, as a task that has died."""
        self._servers[task].close()

    def count(self, src: str = "worker:0", dst: str = "worker:1") -> LinkCounters:
        """The counters of one directed link."""
        return self.network.counters().get((src, dst), LinkCounters(src, dst))


@contextlib.contextmanager
def wire(workers: int = 2, queue_bytes: int = 2**20) -> Iterator[Wire]:
    """A relay between so many fake tasks."""
    with contextlib.ExitStack() as stack:
        names = [f"worker:{index}" for index in range(workers)]
        servers = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in names}
        for server in servers.values():
            server.settimeout(SECONDS_MAX)
        addresses = {name: f"127.0.0.1:{server.getsockname()[1]}" for name, server in servers.items()}
        network = stack.enter_context(Network(Topology(worker=workers), addresses, queue_bytes=queue_bytes))
        network.wait_ready()
        yield Wire(network, servers, stack)


def exactly(connection: socket.socket, count: int) -> bytes:
    """Receive this many bytes."""
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(1 << 18, count - len(data)))
        assert piece, f"the connection ended after {len(data)} of {count} bytes"
        data += piece
    return bytes(data)


def least(measure: Callable[[], float], below: float) -> float:
    """The least of so many measurements that one is below a bound, or of a hundred: a busy machine makes many late."""
    found = measure()
    for _ in range(99):
        if found < below:
            break
        found = min(found, measure())
    return found


def is_silent(connection: socket.socket) -> bool:
    """Whether nothing comes, neither a byte nor an end."""
    connection.settimeout(_SILENCE_SECONDS)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(SECONDS_MAX)
    return False


def is_reset(connection: socket.socket) -> bool:
    """Whether the connection ends with RST, what comes before aside."""
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    return False


def eventually(met: Callable[[], bool], what: str) -> None:
    """Wait until `met()`; fail with `what` after the deadline."""
    deadline = time.monotonic() + SECONDS_MAX
    pause = threading.Event()
    while not met():
        assert time.monotonic() < deadline, f"gave up after {SECONDS_MAX:g} s waiting for {what}"
        pause.wait(0.001)
