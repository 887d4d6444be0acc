"""How two machines find out by which addresses they reach each other: each answers, and each tries the others."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from simulator.threads import Worker
from simulator.wire.site import Peer

__all__ = ["Answering", "reached"]

_TOKEN_BYTES = 16
_SECONDS_MAX = 5.0


class Answering:
    """Says its token to whoever connects, so that nobody takes another machine for this one."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(_TOKEN_BYTES)
        self._listener = socket.create_server(("", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        Worker.started("answering", self._answer)

    def _answer(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:  # closed
                return
            with peer, contextlib.suppress(OSError):
                peer.settimeout(_SECONDS_MAX)
                peer.sendall(self.token.encode())

    def close(self) -> None:
        """Answer nobody any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def reached(peers: Sequence[Peer], seconds: float) -> dict[str, str]:
    """The addresses of each of these by which it itself answers, with commas between, within so many seconds."""
    asked = [(peer, address) for peer in peers for address in peer.addresses]
    if not asked:
        return {}
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(len(asked), "lockstep-reaching") as pool:
        answers = list(pool.map(lambda one: _answers(one[0], one[1], deadline), asked))
    found: dict[str, list[str]] = {peer.machine: [] for peer in peers}
    for (peer, address), answered in zip(asked, answers, strict=True):
        if answered:
            found[peer.machine].append(address)
    return {machine: ",".join(addresses) for machine, addresses in found.items()}


def _answers(peer: Peer, address: str, deadline: float) -> bool:
    said = b""
    wanted = peer.token.encode()
    try:
        with socket.create_connection((address, peer.port), max(0.1, deadline - time.monotonic())) as wire:
            while len(said) < len(wanted):
                wire.settimeout(max(0.1, deadline - time.monotonic()))
                if not (piece := wire.recv(len(wanted) - len(said))):
                    break
                said += piece
    except OSError:
        return False
    return said == wanted
