"""The parent's side of a process that keeps the network: what it is told, what it answers, and whether it lives."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.threads import Worker
from simulator.wire import network as wire

_ANSWER_SECONDS_MAX = 10.0


class NetworkEnded(LockstepError):
    """Raised when a process that keeps the network is asked for something and is not there any more."""


class Helper:
    """A process that obeys the messages of `protocol`.

    Args:
        name: what it is called in messages, such as `relay`.
        control: the connection to it.
        changed: notified whenever it has said something or ended.
        hear: gets what it says unasked, in a thread of this object.
        on_ended: called in that thread when it has ended before it was told to.
        error: what is raised when it is gone.
    """

    def __init__(
        self,
        name: str,
        control: socket.socket,
        changed: threading.Condition,
        *,
        hear: Callable[[wire.FromHelper], None],
        on_ended: Callable[[], None],
        error: type[NetworkEnded] = NetworkEnded,
    ) -> None:
        self.name = name
        self.ended_at: float | None = None
        # What has kept this side from hearing it any more.
        self.problem: Exception | None = None
        # The error by which it has ended, in its own words.
        self.broken = ""
        self._control = control
        self._changed = changed
        self._hear = hear
        self._on_ended = on_ended
        self._error = error
        self._closing = False
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._answers: dict[int, wire.Done | wire.Counted] = {}
        self._reader = Worker.started(name, self._listen)

    @property
    def failed(self) -> bool:
        """Whether it has ended before it was told to."""
        return self.ended_at is not None and not self._closing

    def number(self) -> int:
        """A number for the next request."""
        return next(self._numbers)

    def say(self, message: wire.ToHelper) -> None:
        """Tell it something and do not wait."""
        try:
            with self._sending:
                self._control.sendall(wire.encode(message))
        except OSError as error:
            # That it has ended is on its way to whoever reads, and decides whose failure this is.
            self._reader.ends(_ANSWER_SECONDS_MAX)
            raise self._error(f"the {self.name} has ended ({error})") from None

    def ask(self, message: wire.Chained | wire.Install | wire.Remove | wire.Clear, what: str) -> None:
        """Tell it something and wait until it has done so."""
        self.say(message)
        self.answer(message.request, what)

    def count(self) -> tuple[wire.LinkCounters, ...]:
        """Its counters, by source and destination."""
        request = self.number()
        self.say(wire.Count(request=request))
        answer = self.answer(request, f"the counters of the {self.name}")
        assert isinstance(answer, wire.Counted)
        return tuple(sorted(answer.links, key=lambda link: (link.src, link.dst)))

    def wait(self, done: Callable[[], bool], what: str, seconds: float = _ANSWER_SECONDS_MAX) -> None:
        """Wait for something that it has to bring about."""
        with self._changed:
            if not self._changed.wait_for(lambda: done() or self.ended_at is not None, timeout=seconds):
                raise DeadlineExceeded(what, seconds)
            if not done():
                raise self._error(f"the {self.name} ended while waiting for {what}")

    def dismiss(self) -> None:
        """Tell it to end, which it does when this side is closed for writing.

        One that has ended before has failed, also where that was not heard yet.
        """
        if self.ended_at is None and _is_closed(self._control):
            self._reader.ends(_ANSWER_SECONDS_MAX)
        self._closing = self.ended_at is None
        self._control.shutdown(socket.SHUT_WR)

    def close(self, seconds: float) -> None:
        """Wait for its last words, after it has ended."""
        self._reader.ends(seconds)
        self._control.close()

    def answer(self, request: int, what: str) -> wire.Done | wire.Counted:
        """Wait for the answer to a request."""
        self.wait(lambda: request in self._answers, what)
        return self._answers.pop(request)

    def _listen(self) -> None:
        try:
            self._hear_all()
        except Exception as error:  # noqa: BLE001 - also one of a caller's `on_fired`; who waits has to hear of it
            self.problem = error
        with self._changed:
            self.ended_at = time.monotonic()
            self._changed.notify_all()
        if not self._closing:
            self._on_ended()

    def _hear_all(self) -> None:
        inbox = wire.Inbox(wire.FROM_HELPER)
        while True:
            try:
                data = self._control.recv(1 << 16)
            except OSError:
                data = b""
            for message in inbox.feed(data):
                self._heard(message)
            if not data:
                return

    def _heard(self, message: wire.FromHelper) -> None:
        if isinstance(message, wire.Broken):
            self.broken = message.error
        elif isinstance(message, (wire.Done, wire.Counted)):
            with self._changed:
                # The answers to what was said at the start are not waited for.
                self._answers[message.request] = message
                self._changed.notify_all()
        else:
            self._hear(message)


def _is_closed(control: socket.socket) -> bool:
    """Whether the other side has closed, and all that it has said was read."""
    try:
        return not control.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True
