"""Threads of Lockstep's own: the error that ends one is told, and its end is waited for no longer than it may take."""

from __future__ import annotations

import threading

import pytest

from simulator import threads
from simulator.errors import DeadlineExceeded
from simulator.threads import Worker


def test_the_error_that_ends_work_is_told() -> None:
    """By what it was, to whom it was to be told."""
    told: list[BaseException] = []

    def fail() -> None:
        raise OSError("no room")

    Worker.started("failing", fail, told.append).join()
    assert [str(error) for error in told] == ["no room"]


def test_work_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for it has a deadline; when it has ended, or was never begun, nobody waits."""
    monkeypatch.setattr(threads, "_END_SECONDS_MAX", 0.01)
    end = threading.Event()
    worker = Worker("endless", end.wait)
    worker.join()
    worker.start()
    assert not worker.ends(0.0)
    with pytest.raises(DeadlineExceeded, match="thread lockstep-endless to end"):
        worker.join()
    end.set()
    assert worker.ends(10.0)


def test_a_thread_does_not_wait_for_itself() -> None:
    """As where what it hears has it closed."""
    told: list[BaseException] = []
    own: list[Worker] = []
    known = threading.Event()

    def close() -> None:
        known.wait(10.0)
        own[0].join()

    own.append(Worker.started("closing", close, told.append))
    known.set()
    own[0].join()
    assert told == []
