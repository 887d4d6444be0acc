"""The thread of a run that hears everything its tasks say, and sees them end."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from simulator.errors import DeadlineExceeded, TaskError
from simulator.journal.journal import Journal
from simulator.launch.protocol import End, Failure
from simulator.machines.local.warden import warden
from simulator.run.breakdown import Breakdown
from simulator.run.connection import Connection, half_said
from simulator.run.saves import cut_off, note
from simulator.run.task import Task, signal_name
from simulator.wire import control
from simulator.wire.framing import Malformed

__all__ = ["EventLoop"]

_BACKLOG = 128
# How many may connect without a greeting, besides the tasks.
_STRANGERS_MAX = 64
_POLL_SECONDS = 0.02


class EventLoop:
    """Reads every control connection and every process sentinel; announces each change on `changed`.

    Args:
        tasks: the current incarnations by name.
        address: of the control socket, which is made.
        journal: the run's record.
        failure: what is wrong with the end of a process, as of `Launcher`.
        breakdown: is told of every exception in the thread, which goes on if it can: it has to see processes end.
        key: what a task says when it greets.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        address: Path,
        journal: Journal,
        failure: Callable[[End], Failure | None],
        breakdown: Breakdown | None = None,
        key: str = "",
    ) -> None:
        self.breakdown = breakdown or Breakdown(threading.Condition())
        self.changed = self.breakdown.changed
        self._tasks = tasks
        self._journal = journal
        self._key = key
        self._failure = failure
        self._watched: list[Task] = []
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
        self._thread = threading.Thread(target=self._main, name="lockstep-events", daemon=True)
        self._thread.start()

    def watch(self, task: Task) -> None:
        """Notice the end of this task's process."""
        assert task.launched is not None
        self._watched.append(task)
        self._selector.register(task.launched.sentinel, selectors.EVENT_READ, lambda: self._ended(task))
        self._wake_write.send(b"+")

    def announce(self) -> None:
        """Have everybody who waits look again."""
        with self.changed:
            self.changed.notify_all()

    def wait(self, done: Callable[[], bool], what: str, seconds: float) -> None:
        """Wait until `done`, which is asked at every change.

        Raises:
            DeadlineExceeded: it is not so within `seconds`; the message says that we waited for `what`.
        """
        with self.changed:
            if not self.changed.wait_for(done, timeout=min(seconds, threading.TIMEOUT_MAX)):
                raise DeadlineExceeded(what, seconds)

    def close(self) -> None:
        """Stop listening; the tasks must have ended."""
        self._closing.set()
        self._wake_write.close()
        self._thread.join()
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
            self.breakdown.report("what tasks say is not heard any more", error)
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
            self.breakdown.report("an event of the run could not be taken in", error)
            with contextlib.suppress(KeyError, ValueError):
                # It would come again at once.
                self._selector.unregister(key.fileobj)

    def _see_ends(self) -> None:
        """The least that is needed to end a run: notice that processes have ended."""
        while not self._closing.wait(_POLL_SECONDS):
            for task in [each for each in self._watched if each.alive]:
                if task.launched is not None and task.launched.exit_code() is not None:
                    self._ended(task)

    def _accept(self) -> None:
        try:
            wire, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):  # who was there has gone again
            return
        self._strangers = [each for each in self._strangers if each.owner is None and not each.closed]
        if len(self._strangers) >= len(self._tasks) + _STRANGERS_MAX:
            # A task greets at once.
            self._turn_away(self._strangers.pop(0), "it did not greet")
        self._strangers.append(Connection(wire, self._selector))

    def _read(self, connection: Connection) -> bool:
        """Read once; `False` when nothing is left for now, or ever."""
        data = connection.receive()
        if not data:
            if data is not None:
                connection.close()
            return False
        try:
            for message in connection.inbox.feed(data):
                with self.changed:
                    self._take(connection, message)
                    self.changed.notify_all()
        except Malformed as error:
            self._turn_away(connection, str(error))
            return False
        return True

    # -- who speaks

    def _take(self, connection: Connection, message: control.FromTask) -> None:
        if isinstance(message, control.Hello):
            self._greeted(message, connection)
        elif connection.owner is None:
            raise Malformed(f"{type(message).__name__} comes before a greeting")
        else:
            try:
                # One of an earlier incarnation goes to that one, where it changes nothing.
                self._heard(connection.owner, message)
            except (TypeError, ValueError) as error:
                raise Malformed(f"{type(message).__name__} cannot be taken in: {error}") from None

    def _greeted(self, hello: control.Hello, connection: Connection) -> None:
        task = self._tasks.get(hello.task)
        if task is None:
            raise Malformed(f"it greets as {hello.task}, and the tasks are {', '.join(self._tasks)}")
        if hello.incarnation != task.incarnation:
            self._journal.write("fenced", task=hello.task, incarnation=hello.incarnation, pid=hello.pid)
            return
        if not hmac.compare_digest(hello.key.encode(), self._key.encode()):
            raise Malformed(f"it greets as {hello.task} without the key of the run")
        task.connection = connection
        connection.owner = task
        self._journal.write("hello", task=hello.task, incarnation=hello.incarnation, pid=hello.pid)

    def _turn_away(self, connection: Connection, why: str) -> None:
        """Close a connection on which nonsense has come. Who belongs to a task fails it; a stranger is no matter."""
        pid, session = connection.session
        task = connection.owner or next((task for task in self._tasks.values() if task.pid == session), None)
        connection.close()
        if task is None:
            self._journal.write("stranger", pid=pid, why=why)
            return
        text = (
            f"its process {pid} sent what is no message of an agent: {why}; a program must not use the control socket"
        )
        with self.changed:
            if self._tasks[task.name] is task:
                self._fail(task, TaskError(task.name, "BrokenMessage", text, at=time.monotonic()))
            self.changed.notify_all()

    def _heard(self, task: Task, message: control.FromTask) -> None:
        if self._tasks[task.name] is not task:
            # Its process group is dead, so this comes from something that has left the group.
            self._journal.write("fenced", task=task.name, incarnation=task.incarnation)
            return
        if isinstance(message, control.Ready):
            task.ready = True
            self._write("ready", task, at=message.at)
        elif isinstance(message, control.Computes):
            task.devices = message.devices
            self._write("devices", task, devices=list(message.devices), at=message.at)
        elif isinstance(message, control.Counting):
            task.counted_by = message.by
            task.steps = 0
            self._write("counting", task, by=message.by, at=message.at)
        elif isinstance(message, control.StepDone):
            self._stepped(task, message)
        elif isinstance(message, (control.SaveBegun, control.SaveEnded)):
            note(task, message, partial(self._write, task=task))
        elif isinstance(message, control.AtGate):
            task.at_gate = message.gate
            self._write("gate", task, gate=message.gate, at=message.at)
        elif isinstance(message, control.Acted):
            task.acted[message.fault] = message.effect
            self._write("acted", task, fault=message.fault, effect=message.effect, at=message.at)
        elif isinstance(message, control.Result):
            task.result = message.value
            self._write("result", task, at=message.at)
        elif isinstance(message, control.Error):
            task.leaving = True
            self._fail(
                task,
                TaskError(
                    task.name,
                    message.kind,
                    message.message,
                    traceback=message.traceback,
                    at=message.at,
                    bases=message.bases,
                ),
            )
        elif isinstance(message, control.ThreadFailed):
            self._fail(
                task,
                TaskError(
                    task.name,
                    message.kind,
                    f"in helper thread {message.thread!r}: {message.message}",
                    traceback=message.traceback,
                    at=message.at,
                ),
            )

    def _stepped(self, task: Task, message: control.StepDone) -> None:
        if not task.steps:
            task.first_step_at = message.at
        task.steps = message.number
        known = {}
        if message.loss is not None:
            task.loss = known["loss"] = message.loss
        self._write("step", task, number=message.number, at=message.at, **known)

    def _ended(self, task: Task) -> None:
        assert task.launched is not None
        code = task.launched.exit_code()
        with contextlib.suppress(KeyError):
            self._selector.unregister(task.launched.sentinel)
        self._watched.remove(task)
        try:
            if task.pid is not None:
                warden.forget_group(task.pid)
            # The process may have ended before its last words were read.
            while (
                isinstance(task.connection, Connection) and not task.connection.closed and self._read(task.connection)
            ):
                pass
        finally:
            with self.changed:
                task.exit = code
                task.ended = True
                cut_off(task, time.monotonic(), partial(self._write, task=task))
                self._write("exit", task, code=code, signal=signal_name(code), asked=task.stopped)
                if not task.stopped and task.error is None and (error := self._wrong_end(task)):
                    self._fail(task, error)
                self.changed.notify_all()

    def _write(self, event: str, task: Task, **fields: object) -> None:
        self._journal.write(event, task=task.name, incarnation=task.incarnation, **fields)

    def _fail(self, task: Task, error: TaskError) -> None:
        # The first failure of a task is the one to explain; what follows in the same process derives from it.
        if task.error is None and not task.planned:
            task.error = error
        self._write("error", task, kind=error.kind, message=error.message, at=error.at, planned=task.planned)

    def _wrong_end(self, task: Task) -> TaskError | None:
        end = End(
            exit=task.exit,
            signal=signal_name(task.exit),
            greeted=task.connection is not None,
            is_client=task.is_client,
            returned=task.result is not None,
            log=task.log_path,
            half_said=half_said(task.connection),
        )
        found = self._failure(end)
        return None if found is None else TaskError(task.name, *found, at=time.monotonic())
