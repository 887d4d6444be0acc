"""What a run makes of the events of its machines: handles of tasks that know what was said, and how each ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial

from simulator.errors import DeadlineExceeded, TaskError
from simulator.journal.journal import Journal
from simulator.launch.protocol import Failure, ProcessEnd
from simulator.machines.protocol import Broke, Event, MachineSilent, Silent
from simulator.run.breakdown import Breakdown
from simulator.run.saves import cut_off, note
from simulator.run.task import ProcessWire, Task, signal_name
from simulator.wire import control
from simulator.wire.events import Ended, Fenced, Greeted, Launched, NoMessage, Said, Who
from simulator.wire.framing import Malformed


class Events:
    """Takes in every event of every machine, in the thread of that one; announces each change on `changed`.

    Args:
        tasks: the current incarnations by name.
        journal: the run's record.
        failure: what is wrong with the end of a process, as of `Launcher`.
        breakdown: is told of what a machine cannot do any more.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        journal: Journal,
        failure: Callable[[ProcessEnd], Failure | None],
        breakdown: Breakdown | None = None,
    ) -> None:
        self.breakdown = breakdown or Breakdown(threading.Condition())
        self.changed = self.breakdown.changed
        # Called with the task and the number of each process that was launched.
        self.joined: Callable[[str, int], None] = lambda task, pid: None
        self._tasks = tasks
        self._journal = journal
        self._failure = failure

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

    # -- what machines tell

    def hear(self, event: Event) -> None:
        """Take in one event.

        Raises:
            Malformed: what a task has said cannot be.
        """
        if isinstance(event, Broke):
            self.breakdown.report(event.what, event.error)
            return
        with self.changed:
            try:
                self._hear(event)
            finally:
                self.changed.notify_all()
        if isinstance(event, Launched):
            self.joined(event.who.task, event.pid)

    def _hear(self, event: Event) -> None:
        if isinstance(event, Said):
            self._said(event)
        elif isinstance(event, Launched):
            if (task := self._current(event.who)) is not None:
                task.pid = event.pid
        elif isinstance(event, Greeted):
            self._greeted(event)
        elif isinstance(event, Ended):
            self._ended(event)
        elif isinstance(event, NoMessage):
            self._turned_away(event)
        elif isinstance(event, Fenced):
            self._journal.write("fenced", task=event.who.task, incarnation=event.who.incarnation, pid=event.pid)
        elif isinstance(event, Silent):
            self._journal.write("machine_silent", machine=event.machine, at=event.at)
        elif isinstance(event, MachineSilent):
            self._lose(event)

    def _current(self, who: Who) -> Task | None:
        """The handle of this process, if it is the present one of its task."""
        task = self._tasks.get(who.task)
        return task if task is not None and task.incarnation == who.incarnation else None

    def _greeted(self, event: Greeted) -> None:
        task = self._current(event.who)
        if task is None or task.machine is None:
            return
        again = task.connection is not None  # a program has closed all that it had open
        task.connection = ProcessWire(task.machine, event.who)
        if not again:
            self._journal.write("hello", task=task.name, incarnation=task.incarnation, pid=event.pid)

    def _said(self, event: Said) -> None:
        task = self._current(event.who)
        if task is None:
            # Its process group is dead, so this comes from something that has left the group.
            self._journal.write("fenced", task=event.who.task, incarnation=event.who.incarnation)
            return
        try:
            self._heard(task, event.message)
        except (TypeError, ValueError) as error:
            raise Malformed(f"{type(event.message).__name__} cannot be taken in: {error}") from None

    def _turned_away(self, event: NoMessage) -> None:
        if event.who is None:
            self._journal.write("stranger", pid=event.pid, why=event.why)
            return
        text = (
            f"its process {event.pid} sent what is no message of an agent: {event.why}; a program must not use the "
            "control socket"
        )
        if (task := self._current(event.who)) is not None:
            self._fail(task, TaskError(task.name, "BrokenMessage", text, at=event.at))

    def _lose(self, event: MachineSilent) -> None:
        """The tasks of a machine that is gone have ended with it, in whatever way."""
        self._journal.write("machine_lost", machine=event.machine, why=event.why, at=event.at)
        for task in self._tasks.values():
            if task.machine is not None and task.machine.name == event.machine and task.alive:
                text = f"machine {event.machine}, on which it ran, is lost: {event.why}"
                self._end(task, Ended(task.who, None, event.at), (("MachineLost", text)))

    def _heard(self, task: Task, message: control.FromTask) -> None:
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
        elif isinstance(message, (control.Begins, control.SaveBegun, control.SaveEnded)):
            note(task, message, partial(self._write, task=task))
        elif isinstance(message, control.AtGate):
            task.at_gate = message.gate
            self._write("gate", task, gate=message.gate, at=message.at)
        elif isinstance(message, control.Passed):
            self._write("point", task, point=message.point, what=list(message.what), at=message.at)
        elif isinstance(message, control.Acted):
            task.acted[message.fault] = message.effect
            self._write("acted", task, fault=message.fault, effect=message.effect, at=message.at)
        elif isinstance(message, control.Result):
            task.result = message.value
            task.done_at = message.at
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

    def _ended(self, event: Ended) -> None:
        if (task := self._current(event.who)) is not None and not task.ended:
            self._end(task, event, None)

    def _end(self, task: Task, event: Ended, why: Failure | None) -> None:
        task.exit = event.code
        task.ended = True
        if event.code == 0 and task.error is None and task.done_at is None:
            task.done_at = event.at
        cut_off(task, event.at, partial(self._write, task=task))
        signal = signal_name(event.code)
        self._write("exit", task, code=event.code, signal=signal, asked=task.stopped, at=event.at)
        if why is None and event.code is None:
            return  # how it ended is not known, of which the machine has told why
        if not task.stopped and task.error is None and (found := why or self._wrong_end(task, event)):
            self._fail(task, TaskError(task.name, *found, at=event.at))

    def _write(self, event: str, task: Task, **fields: object) -> None:
        self._journal.write(event, task=task.name, incarnation=task.incarnation, **fields)

    def _fail(self, task: Task, error: TaskError) -> None:
        # The first failure of a task is the one to explain; what follows in the same process derives from it.
        if task.error is None and not task.planned:
            task.error = error
        self._write("error", task, kind=error.kind, message=error.message, at=error.at, planned=task.planned)

    def _wrong_end(self, task: Task, event: Ended) -> Failure | None:
        return self._failure(
            ProcessEnd(
                exit=task.exit,
                signal=signal_name(task.exit),
                greeted=task.connection is not None,
                is_client=task.is_client,
                returned=task.result is not None,
                log=task.log_path,
                half_said=event.half_said,
            )
        )
