"""What two tasks with hosts of their own do to see how many packets are lost: datagrams, and first packets of TCP."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from pathlib import Path

__all__ = ["datagrams", "greetings"]

_PORT = 5050
_SECONDS_MAX = 20.0
# The kernel sends a first packet of TCP that was not answered again after a second.
_FIRST_SECONDS = 0.5
_AT_ONCE = 50


def datagrams(directory: str, count: int) -> int:
    """worker:0 sends so many datagrams to worker:1; how many each has sent, or got.

    Args:
        directory: an empty one, which both see; they say there what they would else have to send.
        count: how many.
    """
    place = Path(directory)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        if _index() == 1:
            bound.bind(("", _PORT))
            (place / "ready").touch()
            return _received(bound, place / "sent")
        _wait(place / "ready")
        for number in range(1, count + 1):
            bound.sendto(b"x", ("worker-1", _PORT))
            if number % _AT_ONCE == 0:
                time.sleep(0.002)  # else the receiver's buffer is full
        (place / "sent").touch()
        return count


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


def _index() -> int:
    return int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])


def _wait(path: Path) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path.name} did not come to be")
        time.sleep(0.005)


def _received(bound: socket.socket, sent: Path) -> int:
    """Count what comes until nothing does any more although all was sent."""
    bound.settimeout(0.1)
    count = 0
    deadline = time.monotonic() + _SECONDS_MAX
    while time.monotonic() < deadline:
        over = sent.exists()
        try:
            bound.recv(16)
            count += 1
        except TimeoutError:
            if over:
                return count
    raise TimeoutError("datagrams did not end")
