"""Who may use the relay, and where it leads: only the tasks of its run, and only to addresses of that run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import os
import socket
from collections.abc import Collection

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_USER = "lockstep"
_SOURCE = "X-Lockstep-Source"
_HEAD_BYTES_MAX = 8192


def proxy_url(port: int, key: str) -> str:
    """What `grpc_proxy` has to be; gRPC sends user and password as Basic authentication of the proxy (RFC 7617)."""
    return f"http://{_USER}:{key}@127.0.0.1:{port}"


def request(address: str, key: str, source: str = "") -> bytes:
    """The request for a connection to this address, as gRPC makes it; of a relay, which says for whom it asks."""
    lines = [f"CONNECT {address} HTTP/1.1", f"Host: {address}", f"Proxy-Authorization: {_basic(key)}"]
    if source:
        lines.append(f"{_SOURCE}: {source}")
    return "\r\n".join((*lines, "", "")).encode()


async def read_head(loop: asyncio.AbstractEventLoop, client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, or of the answer to one, and what has come after it.

    Raises:
        ValueError: it is none, or too long.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await loop.sock_recv(client, _HEAD_BYTES_MAX)
        if not piece or len(data) > _HEAD_BYTES_MAX:
            raise ValueError("no CONNECT request")
        data += piece
    head, _, extra = data.partition(b"\r\n\r\n")
    return head, extra


def may_enter(head: bytes, key: str) -> bool:
    """Whether the head of a request has the key, which only tasks have in their environment."""
    return hmac.compare_digest(_field(head, "proxy-authorization"), _basic(key).encode())


def source(head: bytes) -> str:
    """For which task another relay asks; empty if it does not say."""
    return _field(head, _SOURCE).decode("latin-1")


def _field(head: bytes, wanted: str) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == wanted.lower().encode():
            return value.strip()
    return b""


def target(head: bytes, special: tuple[str, ...]) -> tuple[str, str]:
    """Host and port of `CONNECT host:port HTTP/1.1`; after one of the hosts `special` and a slash, a task's name.

    Raises:
        ValueError: it is another request.
    """
    method, _, rest = head.split(b"\r\n")[0].decode("latin-1").partition(" ")
    if method != "CONNECT":
        raise ValueError(f"not a CONNECT request: {method}")
    address = rest.partition(" ")[0]
    host, _, port = address.partition("/") if address.startswith(special) else address.rpartition(":")
    return host.strip("[]"), port


def listens(port: str, sessions: Collection[int]) -> bool:
    """Whether a process of one of these sessions listens on this port of the loopback interface.

    So it is with what a program starts besides its servers, such as the dispatcher of a tf.data service.
    """
    import psutil

    for pid in psutil.pids():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(pid) in sessions:
                found = psutil.Process(pid).net_connections("tcp")
                if any(each.status == psutil.CONN_LISTEN and str(each.laddr.port) == port for each in found):
                    return True
    return False


def _basic(key: str) -> str:
    return "Basic " + base64.b64encode(f"{_USER}:{key}".encode()).decode()
