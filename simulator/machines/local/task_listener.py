"""The thread of a machine that hears everything its tasks say, and sees them end."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from simulator.errors import ForkserverEnded
from simulator.machines.local.connection import Connection
from simulator.machines.protocol import Broke, Event, Process
from simulator.threads import Worker
from simulator.wire import control
from simulator.wire.events import Ended, Fenced, Greeted, NoMessage, Said, Who
from simulator.wire.framing import Malformed

_BACKLOG = 128
# How many may connect without a greeting, besides the tasks.
_STRANGERS_MAX = 64
_POLL_SECONDS = 0.02


class TaskListener:
    """Reads every control connection and every process sentinel, and tells each event.

    Args:
        address: of the control socket, which is made.
        hear: is told.
        tasks: that may greet.
        key: what a task says when it greets.
        ended: called with each process that has ended, after its event.
    """

    def __init__(
        self,
        address: Path,
        hear: Callable[[Event], None],
        tasks: tuple[str, ...],
        key: str,
        ended: Callable[[Who], None],
    ) -> None:
        self._hear = hear
        self._names = tasks
        self._key = key
        self._told_of_end = ended
        # Which incarnation of each task may greet.
        self._expected: dict[str, int] = {}
        self._watched: dict[Who, Process] = {}
        self._sessions: dict[int, Who] = {}
        self._connections: dict[Who, Connection] = {}
        self._strangers: list[Connection] = []
        self._closing = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(address))
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._wake_read, self._wake_write = socket.socketpair()
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._worker = Worker.started("events", self._main)

    def expect(self, who: Who) -> None:
        """A process of this incarnation is about to be started; none of an earlier one is heard from now on."""
        self._expected[who.task] = who.incarnation
        # The numbers of processes that are gone may be those of others.
        self._sessions = {pid: other for pid, other in self._sessions.items() if other.task != who.task}

    def watch(self, who: Who, process: Process) -> None:
        """Notice the end of this process."""
        self._sessions[process.pid] = who
        self._watched[who] = process
        self._selector.register(process.sentinel, selectors.EVENT_READ, lambda: self._ended(who))
        self._wake_write.send(b"+")

    def connection(self, who: Who) -> Connection | None:
        """The connection of this one's agent."""
        return self._connections.get(who)

    def close(self) -> None:
        """Stop listening; the tasks must have ended."""
        self._closing.set()
        self._wake_write.close()
        self._worker.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, Connection):
                key.data.close()
        self._selector.close()
        self._listener.close()
        self._wake_read.close()

    # -- the thread

    def _main(self) -> None:
        try:
            while not self._closing.is_set():
                for key, mask in self._selector.select():
                    if key.data is None:
                        self._wake_read.recv(64)
                    else:
                        self._see(key, mask)
        except BaseException as error:  # noqa: BLE001 - the run has to hear of it, whatever it is
            self._hear(Broke("what tasks say is not heard any more", error))
            self._see_ends()

    def _see(self, key: selectors.SelectorKey, mask: int) -> None:
        try:
            if not isinstance(key.data, Connection):
                key.data()
                return
            if mask & selectors.EVENT_WRITE:
                key.data.flush()
            if mask & selectors.EVENT_READ:
                self._read(key.data)
        except Exception as error:  # noqa: BLE001 - the ends of the other processes have still to be seen
            self._hear(Broke("an event of the run could not be taken in", error))
            with contextlib.suppress(KeyError, ValueError):
                # It would come again at once.
                self._selector.unregister(key.fileobj)

    def _see_ends(self) -> None:
        """The least that is needed to end a run: notice that processes have ended."""
        while not self._closing.wait(_POLL_SECONDS):
            for who, process in list(self._watched.items()):
                if process.exit_code() is not None:
                    self._ended(who)

    def _accept(self) -> bool:
        """Take one in who connects; `False` when there is none."""
        try:
            wire, _ = self._listener.accept()
        except BlockingIOError:
            return False
        except ConnectionError:  # who was there has gone again
            return True
        self._strangers = [each for each in self._strangers if each.owner is None and not each.closed]
        if len(self._strangers) >= len(self._names) + _STRANGERS_MAX:
            # A task greets at once.
            self._turn_away(self._strangers.pop(0), "it did not greet")
        self._strangers.append(Connection(wire, self._selector))
        return True

    def _read(self, connection: Connection) -> bool:
        """Read once; `False` when nothing is left for now, or ever."""
        data = connection.receive()
        if not data:
            if data is not None:
                connection.close()
            return False
        try:
            for message in connection.inbox.feed(data):
                self._take(connection, message)
        except Malformed as error:
            self._turn_away(connection, str(error))
            return False
        return True

    def _read_all(self, connection: Connection | None) -> None:
        while connection is not None and not connection.closed and self._read(connection):
            pass

    # -- who speaks

    def _take(self, connection: Connection, message: control.FromTask) -> None:
        if isinstance(message, control.Hello):
            self._greeted(message, connection)
        elif connection.owner is None:
            raise Malformed(f"{type(message).__name__} comes before a greeting")
        else:
            self._hear(Said(connection.owner, message))

    def _greeted(self, hello: control.Hello, connection: Connection) -> None:
        if hello.task not in self._names:
            raise Malformed(f"it greets as {hello.task}, and the tasks are {', '.join(self._names)}")
        who = Who(hello.task, hello.incarnation)
        if hello.incarnation != self._expected.get(hello.task, 0):
            self._hear(Fenced(who, hello.pid))
            return
        if not hmac.compare_digest(hello.key.encode(), self._key.encode()):
            raise Malformed(f"it greets as {hello.task} without the key of the run")
        connection.owner = who
        # It connects again where the program has closed all that was open: what it has said before comes first.
        self._read_all(self._connections.get(who))
        self._connections[who] = connection
        self._hear(Greeted(who, hello.pid))

    def _turn_away(self, connection: Connection, why: str) -> None:
        """Close a connection on which nonsense has come. Who belongs to a task fails it; a stranger is no matter."""
        pid, session = connection.session
        who = connection.owner or (None if session is None else self._sessions.get(session))
        connection.close()
        self._hear(NoMessage(who, pid, why, time.monotonic()))

    def _ended(self, who: Who) -> None:
        process = self._watched[who]
        code = process.exit_code()
        if process.lost:
            error = ForkserverEnded("the forkserver that had started it was killed")
            self._hear(Broke(f"how {who.task} ended is not known", error))
            code = None
        at = process.ended_at or time.monotonic()
        with contextlib.suppress(KeyError):
            self._selector.unregister(process.sentinel)
        del self._watched[who]
        # It may have ended before its last words were read, and before anybody heard that it had any.
        while self._accept():
            pass
        for stranger in self._strangers:
            self._read_all(stranger)
        connection = self._connections.get(who)
        try:
            self._read_all(connection)
        finally:
            self._hear(Ended(who, code, at, "" if connection is None else connection.half_said))
            self._told_of_end(who)
