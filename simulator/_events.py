"""The thread of a run that hears everything its tasks say, and sees them end."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from simulator import control
from simulator._warden import warden
from simulator.errors import TaskError
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
                    task = self._tasks[message.task]
                    task.connection = connection
                    owner[:] = [task]
                    self._journal.write("hello", task=message.task, incarnation=message.incarnation, pid=message.pid)
                    # The process may have ended before its last words were read; see `_ended`.
                    task.drain = lambda: self._read(connection, inbox, owner)
                elif owner:
                    self._heard(owner[0], message)
                self.changed.notify_all()
        return True

    def _heard(self, task: Task, message: control.FromTask) -> None:
        if isinstance(message, control.Heartbeat):
            task.heartbeat_at = message.at
            return
        if isinstance(message, control.Ready):
            task.ready = True
            self._journal.write("ready", task=task.name, at=message.at)
        elif isinstance(message, control.Step):
            task.steps = message.number
            self._journal.write("step", task=task.name, number=message.number, at=message.at)
        elif isinstance(message, control.Result):
            task.result = message.value
            self._journal.write("result", task=task.name, at=message.at)
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
            self._journal.write("exit", task=task.name, code=code, signal=signal_name(code), asked=task.stopped)
            if not task.stopped and task.error is None and (error := _exit_failure(task)):
                self._fail(task, error)
            self.changed.notify_all()

    def _fail(self, task: Task, error: TaskError) -> None:
        # The first failure of a task is the one to explain; what follows in the same process derives from it.
        if task.error is None:
            task.error = error
        self._journal.write("error", task=task.name, kind=error.kind, message=error.message, at=error.at)


def _exit_failure(task: Task) -> TaskError | None:
    now = time.monotonic()
    if task.connection is None:
        return TaskError(
            task.name, "NeverStarted", f"ended with exit code {task.exit} before it reached the agent", at=now
        )
    if name := signal_name(task.exit):
        return TaskError(task.name, "Signal", f"killed by {name}", at=now)
    if task.exit != 0:
        return TaskError(task.name, "Exit", f"ended with exit code {task.exit}", at=now)
    if not task.is_client:
        return TaskError(task.name, "Exit", "the server ended although nobody had asked it to", at=now)
    if task.result is None:
        return TaskError(task.name, "NoResult", "ended with exit code 0 without returning a result", at=now)
    return None
