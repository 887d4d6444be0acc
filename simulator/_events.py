"""The thread of a run that hears everything its tasks say, and sees them end."""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from simulator import control
from simulator._saved import cut_off, note
from simulator._warden import warden
from simulator.errors import DeadlineExceeded, TaskError
from simulator.journal import Journal
from simulator.task import Task, signal_name

__all__ = ["EventLoop"]


class EventLoop:
    """Reads every control connection and every process sentinel; announces each change on `changed`."""

    def __init__(self, tasks: Mapping[str, Task], address: Path, journal: Journal) -> None:
        self.changed = threading.Condition()
        self._tasks = tasks
        self._journal = journal
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(address))
        self._listener.listen(len(tasks))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._wake_read, self._wake_write = socket.socketpair()
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._loop, name="lockstep-events", daemon=True)
        self._thread.start()

    def watch(self, task: Task) -> None:
        """Notice the end of this task's process."""
        assert task.launched is not None
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
        self._wake_write.close()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        self._listener.close()
        self._wake_read.close()

    def _loop(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    key.data()
                elif not self._wake_read.recv(64):
                    return

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        inbox = control.Inbox()
        owner: list[Task] = []
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(connection, inbox, owner))

    def _read(self, connection: socket.socket, inbox: control.Inbox, owner: list[Task]) -> bool:
        """Read once; `False` when the connection is at its end."""
        try:
            data = connection.recv(1 << 20)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection)
            connection.close()
            return False
        for message in inbox.feed(data):
            with self.changed:
                if isinstance(message, control.Hello):
                    self._greeted(message, connection, inbox, owner)
                elif owner:  # a message of an earlier incarnation goes to that one, where it changes nothing
                    self._heard(owner[0], message)
                self.changed.notify_all()
        return True

    def _greeted(
        self, hello: control.Hello, connection: socket.socket, inbox: control.Inbox, owner: list[Task]
    ) -> None:
        task = self._tasks[hello.task]
        if hello.incarnation != task.incarnation:
            self._journal.write("fenced", task=hello.task, incarnation=hello.incarnation, pid=hello.pid)
            return
        task.connection = connection
        owner[:] = [task]
        self._journal.write("hello", task=hello.task, incarnation=hello.incarnation, pid=hello.pid)
        # The process may have ended before its last words were read; see `_ended`.
        task.drain = lambda: self._read(connection, inbox, owner)

    def _heard(self, task: Task, message: control.FromTask) -> None:
        if isinstance(message, control.Heartbeat):
            task.heartbeat_at = message.at
            return
        if self._tasks[task.name] is not task:
            # Its process group is dead, so this comes from something that has left the group.
            self._journal.write("fenced", task=task.name, incarnation=task.incarnation)
            return
        if isinstance(message, control.Ready):
            task.ready = True
            self._write("ready", task, at=message.at)
        elif isinstance(message, control.Counting):
            task.counted_by = message.by
            task.steps = 0
            self._write("counting", task, by=message.by, at=message.at)
        elif isinstance(message, control.Step):
            task.steps = message.number
            self._write("step", task, number=message.number, at=message.at)
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

    def _ended(self, task: Task) -> None:
        assert task.launched is not None
        code = task.launched.exit_code()
        self._selector.unregister(task.launched.sentinel)
        if task.pid is not None:
            warden.forget_group(task.pid)
        while task.connection is not None and task.connection.fileno() >= 0 and task.drain is not None and task.drain():
            pass
        with self.changed:
            task.exit = code
            task.ended = True
            cut_off(task, time.monotonic(), partial(self._write, task=task))
            self._write("exit", task, code=code, signal=signal_name(code), asked=task.stopped)
            if not task.stopped and task.error is None and (error := _exit_failure(task)):
                self._fail(task, error)
            self.changed.notify_all()

    def _write(self, event: str, task: Task, **fields: object) -> None:
        self._journal.write(event, task=task.name, incarnation=task.incarnation, **fields)

    def _fail(self, task: Task, error: TaskError) -> None:
        # The first failure of a task is the one to explain; what follows in the same process derives from it.
        if task.error is None and not task.planned:
            task.error = error
        self._write("error", task, kind=error.kind, message=error.message, at=error.at, planned=task.planned)


def last_exception(log: str) -> str | None:
    """The line with which the last Python traceback in a log ends, for example `ValueError: no data`."""
    _, mark, last = log.rpartition("Traceback (most recent call last)")
    found = re.findall(r"^((?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:: .*)?)$", last, re.MULTILINE)
    return found[0] if found and mark else None


def _exit_failure(task: Task) -> TaskError | None:
    now = time.monotonic()
    if task.connection is None and not task.is_program:
        return TaskError(
            task.name, "NeverStarted", f"ended with exit code {task.exit} before it reached the agent", at=now
        )
    if name := signal_name(task.exit):
        return TaskError(task.name, "Signal", f"killed by {name}", at=now)
    if task.exit != 0:
        why = f": {said}" if task.is_program and (said := last_exception(task.log)) else ""
        return TaskError(task.name, "Exit", f"ended with exit code {task.exit}{why}", at=now)
    if task.is_program:
        return None
    if not task.is_client:
        return TaskError(task.name, "Exit", "the server ended although nobody had asked it to", at=now)
    if task.result is None:
        return TaskError(task.name, "NoResult", "ended with exit code 0 without returning a result", at=now)
    return None
