"""The parent's end of a connection to its control socket; nothing that is done with it waits for the other end."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading

from simulator.wire import control
from simulator.wire.events import Who

_READ_BYTES_MAX = 1 << 20
# struct ucred of <sys/socket.h>: process, user, group.
_CREDENTIALS = struct.Struct("3i")


class Connection:
    """Reads what one process says and queues what it is told: it may be stopped, and take nothing.

    Args:
        wire: the connected socket.
        selector: where it is registered while it is open.
    """

    def __init__(self, wire: socket.socket, selector: selectors.BaseSelector) -> None:
        wire.setblocking(False)
        self._wire = wire
        self._selector = selector
        self.inbox = control.ControlInbox()
        # The task as which it has greeted.
        self.owner: Who | None = None
        self.closed = False
        self._outbox = bytearray()
        self._lock = threading.Lock()
        selector.register(wire, selectors.EVENT_READ, self)

    @property
    def session(self) -> tuple[int, int | None]:
        """The process that has connected, and its session, which a task's children share; `None` if it has gone."""
        pid, _, _ = _CREDENTIALS.unpack(self._wire.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        try:
            return pid, os.getsid(pid)
        except OSError:
            return pid, None

    @property
    def half_said(self) -> str:
        """That a message has begun and not ended, for the end of a sentence; empty if none has."""
        unfinished = self.inbox.unfinished
        return f"; of its last message it has sent {unfinished}" if unfinished else ""

    def receive(self) -> bytes | None:
        """What has come; empty at its end, `None` if there is nothing now."""
        try:
            return self._wire.recv(_READ_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def sendall(self, data: bytes) -> None:
        """Send this, now or when the other end takes it; nothing happens if it has gone. Safe from any thread."""
        with self._lock:
            self._outbox += data
            self._flush()

    def flush(self) -> None:
        """Send what is left."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """End it; what is left is not sent."""
        with self._lock:
            if not self.closed:
                self.closed = True
                self._selector.unregister(self._wire)
                self._wire.close()

    def _flush(self) -> None:
        if self.closed:
            return
        try:
            while self._outbox:
                del self._outbox[: self._wire.send(self._outbox)]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # it has just ended, which is seen when it is read
            self._outbox.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox else 0)
        self._selector.modify(self._wire, wanted, self)
