"""The processes that a test has started: which there are, and which signals the test itself has sent."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

_live: list[Any] = []
_ended: list[tuple[str, int]] = []
# TensorFlow's runner starts processes again in a thread of its own.
_sorting = threading.Lock()
_sent: dict[int, set[int]] = {}


def is_manager(name: str) -> bool:
    """Whether a process of this name is `multiprocess`'s server of queues and barriers, which lives with its file."""
    return "Manager" in name


def started(process: Any) -> None:
    """Note a process that has just been started, and let go of those that have ended, with the files they hold."""
    with _sorting:
        _sort()
        _live.append(process)


def left() -> list[Any]:
    """The processes that have not ended; the manager is none of them."""
    with _sorting:
        _sort()
        return [each for each in _live if not is_manager(each.name)]


def sent(pid: int) -> set[int]:
    """The signals that this process has sent to that one."""
    return _sent.get(pid, set())


def watch_kill() -> None:
    """From now on know which signals this process sends, and so which deaths of its tasks are meant."""
    kill: Callable[[int, int], None] = os.kill

    def noted(pid: int, number: int, /) -> None:
        _sent.setdefault(pid, set()).add(int(number))
        kill(pid, number)

    os.kill = noted


def ended_now() -> list[tuple[str, int]]:
    """The names and exit codes of processes that have ended since they were last asked for."""
    with _sorting:
        _sort()
        ended = list(_ended)
        _ended.clear()
    return ended


def _sort() -> None:
    ended = [each for each in _live if each.exitcode is not None]
    _ended.extend((each.name, each.exitcode) for each in ended)
    _live[:] = [each for each in _live if each not in ended]
