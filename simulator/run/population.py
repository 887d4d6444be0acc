"""The processes of a run: launched, told to begin, replaced by new incarnations, and ended."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from simulator.errors import DeadlineExceeded, RunEnded, TaskError
from simulator.journal.journal import Journal
from simulator.machines.placement import Placement, at_once
from simulator.machines.protocol import Machine
from simulator.run.events import Events
from simulator.run.restarts import has_done
from simulator.run.starter import Starter
from simulator.run.task import Task
from simulator.wire.control import Proceed
from simulator.wire.spec import TaskSpec

# A process that has not announced a step after so many times what its peers took, and after so long, waits for them:
# what it does until then is the same, on the same machine.
_FIRST_STEP_FACTOR = 3.0
_FIRST_STEP_SECONDS_MIN = 5.0


@dataclass
class Population:
    """The current incarnation of every task of a run.

    Attributes:
        tasks: the handles by name; a restart puts another one in a task's place.
        starter: makes tasks and starts their processes.
        events: hears them.
        journal: the run's record.
        environ: the variables of the network between the tasks, by task.
        gates: task to the points of its program at which it stops.
        hooks: task to what has to be patched in it.
        call: the packed function that clients call; `None` where each task runs a program, which is on its own.
        start_timeout: seconds that a process may take to reach its agent, or to listen.
    """

    tasks: dict[str, Task]
    starter: Starter
    events: Events
    journal: Journal
    environ: Callable[[str], Mapping[str, str]]
    gates: Mapping[str, Sequence[str]]
    hooks: Mapping[str, Sequence[str]]
    call: bytes | None
    start_timeout: float
    # Guards which processes there are: held while tasks are replaced, and while the run ends.
    lock: threading.RLock = field(default_factory=threading.RLock)
    _ending: bool = False
    # Task to the gates that one of its incarnations has been at: the next ones shall not stop there again.
    _passed: dict[str, set[str]] = field(default_factory=dict)
    # Task to the clients that had begun to train, and went on, when its present process was started.
    _missed: dict[str, Sequence[Task]] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether any task has failed and was not replaced."""
        return any(task.error is not None for task in self.tasks.values())

    def passed(self, task: Task) -> None:
        """Remember the gate at which this task stands."""
        if task.at_gate is not None:
            self._passed.setdefault(task.name, set()).add(task.at_gate)

    def launch(self, tasks: Sequence[Task]) -> None:
        """Start the process of each of these tasks, at once on all machines."""
        specs = {task.name: self._spec(task) for task in tasks}
        shares = self._placement.shares(specs)
        at_once([partial(machine.launch, [specs[name] for name in names]) for machine, names in shares])

    @property
    def _placement(self) -> Placement:
        return self.starter.placement

    def _spec(self, task: Task) -> TaskSpec:
        task.asked_at = time.monotonic()
        passed = self._passed.get(task.name, ())
        return self.starter.spec(
            task,
            environ=self.environ(task.name),
            gates=tuple(gate for gate in self.gates.get(task.name, ()) if gate not in passed),
            hooks=tuple(self.hooks.get(task.name, ())),
        )

    def _end(self, tasks: Sequence[Task], grace: float | None) -> None:
        """End these for certain, wherever they are; what had been left by one that had ended is written down."""
        by_name = {task.name: task for task in tasks}

        def end(machine: Machine, names: Sequence[str]) -> None:
            for left in machine.end([by_name[name].who for name in names], grace):
                if grace is not None:
                    self.journal.write("leaked", task=left.task)

        at_once([partial(end, machine, names) for machine, names in self._placement.shares(by_name)])

    def proceed(self, tasks: Sequence[Task], given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until these have started and their servers listen; then have the clients call the function.

        Those are the clients of the whole run which nobody has told to yet: they may have waited for a server that
        failed before it listened, and listens only in a later incarnation.

        Raises:
            DeadlineExceeded: one has not started in time.
        """
        if self.call is None:
            return
        deadline = time.monotonic() + self.start_timeout
        for task in tasks:
            self._wait_start(
                task, f"{task.name} to start", lambda task: task.connection is not None, given_up, deadline
            )
        for task in tasks:
            if not task.is_client:
                what = f"the server of {task.name} to listen"
                self._wait_start(task, what, lambda task: task.ready, given_up, deadline)
        with self.events.changed:
            everybody = self.tasks.values()
            if not all(task.ready for task in everybody if not task.is_client):
                return
            untold = [task for task in everybody if task.is_client and task.connection is not None and not task.told]
            for task in untold:
                task.told = True
        for task in untold:
            task.send(Proceed(call=self.call))

    def _wait_start(
        self, task: Task, what: str, done: Callable[[Task], bool], given_up: Callable[[], bool], deadline: float
    ) -> None:
        broken = self.events.breakdown

        def over() -> bool:
            return done(task) or task.ended or task.finished or given_up() or broken.cause is not None

        try:
            self.events.wait(over, what, max(0.0, deadline - time.monotonic()))
        except DeadlineExceeded:
            raise DeadlineExceeded(what, self.start_timeout) from None

    def replace(self, names: Sequence[str], reason: str, replaced: Callable[[], None] = lambda: None) -> list[Task]:
        """Kill these tasks' processes and launch new ones, whose handles are returned.

        Args:
            names: the tasks.
            reason: for the journal.
            replaced: called at the moment when the new ones take the place of the old ones.

        Raises:
            RunEnded: what its name says.
        """
        with self.lock:
            if self._ending:
                raise RunEnded(f"{', '.join(names)} cannot be restarted: the run has ended")
            old = [self.tasks[name] for name in names]
            for task in old:
                if task.alive:
                    task.announce_end(comes_back=True)
            self._end(old, None)
            if self._placement.lost and len(old) == len(self.tasks):
                self.starter.move()
                self.journal.write("moved", **self._placement.described, addresses=self.starter.addresses)
            new = [self._successor(task) for task in old]
            with self.events.changed:
                kept = [task for task in self.tasks.values() if task.name not in names and _is_under_way(task)]
                self._missed.update(dict.fromkeys(names, kept))
                self.tasks.update({task.name: task for task in new})
                replaced()
                self.events.changed.notify_all()
            for task in new:
                self.journal.write("restart", task=task.name, incarnation=task.incarnation, reason=reason)
            self.launch(new)
            return new

    def proceed_again(self, new: Sequence[Task], given_up: Callable[[], bool] = lambda: False) -> None:
        """As `proceed`, for tasks that have been replaced: one that does not start has failed."""
        try:
            self.proceed(new, given_up)
        except DeadlineExceeded as late:
            with self.events.changed:
                for task in new:
                    if task.connection is None and task.error is None:
                        task.error = TaskError(task.name, "NeverStarted", str(late), at=time.monotonic())
                self.events.changed.notify_all()

    def fail_left_behind(self, *, at_once: bool) -> None:
        """Fail each client that was started again alone and whose peer, which had begun without it, is done.

        In synchronous training such a task waits without end: its peer joins no cluster any more. A survivor that is
        still at work fails by itself. One that has announced a step needs nobody.

        Args:
            at_once: before it has had the time for a first step. Only where a failure does no harm: a task that needs
                nobody, and would have announced one, is failed too.
        """
        for name, kept in self._missed.items():
            task = self.tasks[name]
            done = [peer for peer in kept if self.tasks[peer.name] is peer and has_done(peer)]
            if not done or not _is_trainer(task) or not task.alive or task.finished or task.steps:
                continue
            if at_once or time.monotonic() > task.asked_at + _seconds_for_a_step(done):
                names = [peer.name for peer in done]
                text = f"was started again alone, and {', '.join(names)} had been training before and is done"
                task.error = TaskError(name, "LeftBehind", f"{text}: they cannot meet any more", at=time.monotonic())
                self.journal.write("left_behind", task=name, incarnation=task.incarnation, done=names)
                self.events.changed.notify_all()

    def _successor(self, task: Task) -> Task:
        self.passed(task)
        new = self.starter.new_task(task.name)
        new.incarnation = task.incarnation + 1
        new.greets = task.greets or task.connection is not None
        new.earlier = (*task.earlier, task.as_incarnation())
        with new.log_path.open("a") as log:
            log.write(f"--- lockstep: {task.name} starts again, incarnation {new.incarnation}\n")
        return new

    def kill(self) -> None:
        """SIGKILL every task at the same time, as a power cut would, and wait until all are gone."""
        with self.lock:
            for task in self.tasks.values():
                task.announce_end()
            for task in self.tasks.values():
                task.signal_group(signal.SIGKILL)
            self.events.wait(
                lambda: not any(task.alive for task in self.tasks.values()), "tasks to end after SIGKILL", 30.0
            )

    def see_the_killed_end(self) -> None:
        """Wait for those that were killed: others may notice that, and be done, before the process itself has gone."""
        dying = [task for task in self.tasks.values() if task.killed]
        with contextlib.suppress(DeadlineExceeded):
            self.events.wait(lambda: not any(task.alive for task in dying), "killed tasks to end", _DYING_SECONDS_MAX)

    def end(self, grace: float) -> None:
        """TERM, then KILL after `grace` seconds, every process group that is left; return when all of it is gone.

        What a fault has stopped gets KILL at once: to hear of TERM it would go on, and train.
        """
        with self.lock:
            self._ending = True
        with self.events.changed:
            for task in self.tasks.values():
                task.stopped = task.stopped or task.alive
        self._end([task for task in self.tasks.values() if task.stopped_by], None)
        self._end(list(self.tasks.values()), grace)


_DYING_SECONDS_MAX = 10.0
"""What the system takes at most to end a process after SIGKILL, under load."""


def _is_trainer(task: Task) -> bool:
    """Whether it takes part in collectives, as an evaluator does not."""
    return task.is_client and task.job != "evaluator"


def _seconds_for_a_step(peers: Sequence[Task]) -> float:
    """How long a process may take to its first step, given those of its peers; for ever if none announced any."""
    took = [peer.first_step_at - peer.asked_at for peer in peers if peer.first_step_at is not None]
    return max(_FIRST_STEP_SECONDS_MIN, _FIRST_STEP_FACTOR * max(took)) if took else float("inf")


def _is_under_way(task: Task) -> bool:
    return _is_trainer(task) and (task.steps > 0 or has_done(task))
