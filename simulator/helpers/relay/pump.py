"""One connection through the relay: a pump for each direction, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from typing import Final

from simulator.helpers.relay.directed import READ_BYTES_MAX, Directed, Tally
from simulator.helpers.relay.timers import Timers

# What waits for a slow receiver, as opposed to what is on its way on a link with a delay.
_BLOCKED_BYTES_MAX = 256 * 1024
_LINGER_NOT = struct.pack("ii", 1, 0)
# All pumps read into one buffer, since only one reads at a time; what cannot be passed on at once is copied.
_VIEW = memoryview(bytearray(READ_BYTES_MAX))
_END: Final = "end of stream"
_RESET: Final = "reset"


class Pump:
    """Carries what `source` sends to `target`, under the conditions of one directed link, in order."""

    def __init__(
        self, connection: PumpConnection, link: Directed, source: socket.socket, target: socket.socket
    ) -> None:
        self.connection = connection
        self.link = link
        self.tally = link.tally if connection.counted else Tally()
        self.queued = 0
        # Bytes or the end of this direction have vanished in a blackhole.
        self.gap = False
        # The end of this direction has been passed on.
        self.done = False
        self._source = source
        self._target = target
        self._queue: deque[tuple[float, memoryview | str]] = deque()
        self._last_due = 0.0
        self._reading = False
        self._writing = False
        self._ended = False
        self._lost = False
        self._broken = False
        self._alarm = float("inf")
        self._read_alarm = False
        link.pumps.add(self)

    @property
    def reverse(self) -> Pump:
        """The pump of the other direction."""
        forward, back = self.connection.pumps
        return back if self is forward else forward

    # -- reading

    def update_reading(self) -> None:
        """Read, or stop reading, as the queue and the link have it now."""
        wanted = self._may_read()
        if wanted and not self._reading:
            self.connection.loop.add_reader(self._source, self._readable)
        elif not wanted and self._reading:
            self.connection.loop.remove_reader(self._source)
        self._reading = wanted

    def _may_read(self) -> bool:
        if self._ended or self.connection.closed or self.link.stalling:
            return False
        limit = _BLOCKED_BYTES_MAX if self._writing else self.connection.queue_bytes
        if self.queued >= (limit if self._reading else limit // 2 + 1):
            return False
        if self.link.rate and not self.connection.steady and (again := self.link.read_again_at()) > time.monotonic():
            if not self._read_alarm:
                self._read_alarm = True
                self.connection.timers.at(again, self._read_again)
            return False
        return True

    def _read_again(self) -> None:
        self._read_alarm = False
        self.update_reading()

    def _readable(self) -> None:
        try:
            count = self._source.recv_into(_VIEW, self.link.read_limit())
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.source_lost()
            return
        if count:
            self.carry(_VIEW[:count])
        else:
            self._ended = True
            self.update_reading()
            self._announce(_END)

    def carry(self, view: memoryview) -> None:
        """Do to these bytes, which have just been read, what the link does."""
        now = time.monotonic()
        link, count = self.link, len(view)
        self.tally.took(count, now)
        if link.resetting:
            self.tally.dropped += count
            self.connection.reset(link)
        elif link.black or self.gap or self._broken:
            self.gap = self.gap or link.black
            self.tally.dropped += count
        elif link.plain and not self._queue:
            if sent := self._send(view):
                view = view[sent:]
            if view and not self._broken:
                self._enqueue(bytes(view), now)
                self._watch_target(True)
        else:
            self._enqueue(bytes(view), link.due(now, count, self.connection.steady))
            self.flush()
        if link.triggers and self.tally is link.tally:
            link.check_triggers()
        self.update_reading()

    def source_lost(self) -> None:
        """The sender has reset the connection: tell the receiver, after what was sent before."""
        if self._lost or self.connection.closed:
            return
        self._lost = self._ended = True
        self.update_reading()
        self.reverse.give_up()
        self._announce(_RESET)

    # -- writing

    def _enqueue(self, data: bytes, due: float) -> None:
        self._last_due = max(self._last_due, due)
        self._queue.append((self._last_due, memoryview(data)))
        self.queued += len(data)
        if self.link.holding:
            self.tally.held += len(data)

    def _announce(self, what: str) -> None:
        if self.link.black or self.gap:
            self.gap = True
            return
        self._last_due = max(self._last_due, time.monotonic() + self.link.draw())
        self._queue.append((self._last_due, what))
        self.flush()

    def flush(self) -> None:
        """Pass on everything that is due."""
        blocked = False
        while self._queue and not blocked and not self.link.holding and not self.connection.closed:
            due, item = self._queue[0]
            if due > time.monotonic():
                self._wake_at(due)
                break
            if isinstance(item, str):
                self._queue.popleft()
                self._pass_on(item)
                continue
            sent = self._send(item)
            if self._broken:
                return
            self.queued -= sent
            blocked = sent < len(item)
            if blocked:
                self._queue[0] = (due, item[sent:])
            else:
                self._queue.popleft()
        self._watch_target(blocked and not self.connection.closed)
        self.update_reading()

    def _wake_at(self, due: float) -> None:
        if due < self._alarm:
            self._alarm = due
            self.connection.timers.at(due, self._woken)

    def _woken(self) -> None:
        self._alarm = float("inf")
        self.flush()

    def _send(self, view: memoryview) -> int:
        try:
            sent = self._target.send(view)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.tally.dropped += 0 if self.queued else len(view)
            self.give_up()
            # The error is told once; the pump that reads from this socket would see a regular end.
            self.reverse.source_lost()
            return 0
        self.tally.delivered += sent
        return sent

    def _pass_on(self, what: str) -> None:
        if what == _RESET:
            self.connection.abort()
            return
        self.done = True
        with contextlib.suppress(OSError):
            self._target.shutdown(socket.SHUT_WR)
        self.connection.close_if_done()

    def _watch_target(self, wanted: bool) -> None:
        if wanted and not self._writing:
            self.connection.loop.add_writer(self._target, self.flush)
        elif self._writing and not wanted:
            self.connection.loop.remove_writer(self._target)
        self._writing = wanted

    def give_up(self) -> None:
        """The receiver is gone: what waits for it, and what still comes, goes nowhere."""
        self._broken = True
        self._watch_target(False)
        self.tally.dropped += self.queued
        self.queued = 0
        self._queue.clear()

    def detach(self) -> None:
        """The connection is over."""
        self._watch_target(False)
        if self._reading:
            self.connection.loop.remove_reader(self._source)
            self._reading = False
        self.give_up()
        self.link.pumps.discard(self)


class PumpConnection:
    """A connection that one task has opened to another; `counted` unless it is a probe, `steady` by the delay alone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timers: Timers,
        links: tuple[Directed, Directed],
        sockets: tuple[socket.socket, socket.socket],
        *,
        queue_bytes: int,
        counted: bool = True,
        steady: bool = False,
    ) -> None:
        self.loop = loop
        self.timers = timers
        self.queue_bytes = queue_bytes
        self.counted = counted
        self.steady = steady
        self.closed = False
        self._sockets = sockets
        opener, server = sockets
        self.pumps = (Pump(self, links[0], opener, server), Pump(self, links[1], server, opener))

    def start(self, extra: bytes = b"", said: bytes = b"") -> None:
        """Begin to carry; `extra` is what the opener has sent already, `said` what the server has."""
        for pump, come in zip(self.pumps, (extra, said), strict=True):
            if come:
                pump.carry(memoryview(come))
        for pump in self.pumps:
            pump.update_reading()

    def reset(self, link: Directed) -> None:
        """Reset both ends because `link` asks for it."""
        if not self.closed:
            link.resets += self.counted
            self.abort()

    def abort(self) -> None:
        """Send RST to both ends."""
        self._end(abruptly=True)

    def close_if_done(self) -> None:
        """Close both ends once both directions have ended."""
        if all(pump.done for pump in self.pumps):
            self._end(abruptly=False)

    def _end(self, *, abruptly: bool) -> None:
        if self.closed:
            return
        self.closed = True
        for pump in self.pumps:
            pump.detach()
        for end in self._sockets:
            reset_socket(end) if abruptly else end.close()


def reset_socket(end: socket.socket) -> None:
    """Close with RST instead of FIN."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    end.close()
