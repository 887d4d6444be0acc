"""Who may use the relay, and where it leads: only the tasks of its run, and only to addresses of that run."""

from __future__ import annotations

import base64
import contextlib
import hmac
import os
from collections.abc import Collection

__all__ = ["LOOPBACK", "listens", "may_enter", "proxy_url", "request", "target"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_USER = "lockstep"


def proxy_url(port: int, key: str) -> str:
    """What `grpc_proxy` has to be; gRPC sends user and password as Basic authentication of the proxy (RFC 7617)."""
    return f"http://{_USER}:{key}@127.0.0.1:{port}"


def request(address: str, key: str) -> bytes:
    """The request for a connection to this address, as gRPC makes it."""
    return f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\nProxy-Authorization: {_basic(key)}\r\n\r\n".encode()


def may_enter(head: bytes, key: str) -> bool:
    """Whether the head of a request has the key, which only tasks have in their environment."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"proxy-authorization":
            return hmac.compare_digest(value.strip(), _basic(key).encode())
    return False


def target(head: bytes, special: str) -> tuple[str, str]:
    """Host and port of `CONNECT host:port HTTP/1.1`; after the host `special` and a slash, a task's name.

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
