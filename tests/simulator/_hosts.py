"""What tasks with hosts of their own do in tests: look around, and send each other bytes without TensorFlow."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from functools import cache
from typing import Any

import pytest

from tests.simulator._faults import own_agent
from tests.simulator._wire import connect_request

_SECONDS_MAX = 20.0
_BYTES_RETRANS = 208
"""Where Linux's struct tcp_info has `tcpi_bytes_retrans`, since 4.19."""


@cache
def _why_not() -> str:
    from simulator.capabilities.namespaces import try_hosts, try_namespaces

    return try_hosts(try_namespaces())


def hosts_or_skip() -> None:
    """Skip the test, with the reason, on a machine that gives no hosts."""
    if why := _why_not():
        pytest.skip(f"this machine has no network=namespaces: {why}")


def around() -> dict[str, Any]:
    """Where the task finds itself."""
    return {
        "name": socket.gethostname(),
        "peer": socket.gethostbyname("worker-1"),
        "user": os.getuid(),
        "pid": os.getpid(),
        "interfaces": sorted(name for _, name in socket.if_nameindex()),
        "config": os.environ["TF_CONFIG"],
        "listens": _refuses(("127.0.0.1", 2222)),
    }


def _refuses(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, 1).close()
    except ConnectionRefusedError:
        return True
    return False


def stream(count: int, pieces: int = 1) -> tuple[int, float, int]:
    """worker:0 sends pieces of so many bytes to worker:1, which answers each with one byte. Each piece is a step.

    Returns:
        Bytes done, seconds, and how many bytes TCP has sent again.
    """
    agent = own_agent()
    config = json.loads(os.environ["TF_CONFIG"])
    host, _, port = config["cluster"]["worker"][1].rpartition(":")
    index = config["task"]["index"]
    done = 0
    with _connection(index, host, int(port)) as connection:
        began = time.monotonic()
        for number in range(1, pieces + 1):
            if index == 0:
                connection.sendall(bytes(count))
                assert connection.recv(1) == b"!"
                done += count
            else:
                done += _receive(connection, count)
                connection.sendall(b"!")
            agent.step(number)
        return done, time.monotonic() - began, _sent_again(connection)


def _sent_again(connection: socket.socket) -> int:
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RETRANS + 8)
    return int.from_bytes(told[_BYTES_RETRANS:], sys.byteorder)


def _receive(connection: socket.socket, count: int) -> int:
    got = 0
    while got < count:
        got += len(connection.recv(min(1 << 18, count - got))) or pytest.fail("the connection ended")
    return got


def _connection(index: int, host: str, port: int) -> socket.socket:
    connection = _accept(port) if index == 1 else _dial_until_there(host, port)
    connection.settimeout(_SECONDS_MAX)
    return connection


def _accept(port: int) -> socket.socket:
    with socket.create_server(("", port)) as server:
        server.settimeout(_SECONDS_MAX)
        return server.accept()[0]


def _dial_until_there(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _SECONDS_MAX
    while True:
        try:
            return _dial(host, port)
        except OSError:
            assert time.monotonic() < deadline, "worker:1 does not listen"


def _dial(host: str, port: int) -> socket.socket:
    proxy = os.environ.get("grpc_proxy")  # noqa: SIM112 - the name that gRPC reads
    if proxy is None:
        return socket.create_connection((host, port), _SECONDS_MAX)
    connection = socket.create_connection(("127.0.0.1", int(proxy.rpartition(":")[2])), _SECONDS_MAX)
    connection.sendall(connect_request(f"{host}:{port}", proxy))
    if b" 200 " not in connection.recv(100):
        connection.close()
        raise ConnectionRefusedError
    return connection
