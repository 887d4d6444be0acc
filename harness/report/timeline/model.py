"""What happened in a run, as data: lives of tasks, steps, saves, faults, conditions of links; no TensorFlow needed."""

from __future__ import annotations

from typing import Any

import msgspec


class Sighting(msgspec.Struct, frozen=True):
    """Something that one task did: `task`, when (`at`, seconds since the start of the run), and `what`.

    `undecided` are tasks of other machines that may have been earlier, as far as the clocks tell.
    """

    task: str
    at: float
    what: str
    undecided: tuple[str, ...] = ()


class Mark(msgspec.Struct, frozen=True):
    """A point of saving or restoring at which a fault has stopped a task, such as `after_save`."""

    task: str
    incarnation: int
    at: float
    what: str


class Save(msgspec.Struct, frozen=True, kw_only=True):
    """One outermost call that saved or restored something.

    Attributes:
        task: `job:index`.
        incarnation: of that task.
        restores: whether it read.
        kind: the call, such as `tf.train.CheckpointManager.save`.
        path: what it wrote or read; None for a restore of nothing, or if the call did not come so far.
        begin: when it began.
        end: when it ended, or the process did.
        step: the last step that the process had announced when it began.
        bytes: size of what was written, or None.
        failed: class of the exception with which it ended, or None.
        unfinished: whether the end of the process has cut it off.
        asynchronous: None; of an asynchronous checkpoint `call` for what its caller waited for, and `thread` for what
            a thread of TensorFlow's did afterwards.
        state: a digest of some of what its task trains, when it began; None where that is not known.
    """

    task: str
    incarnation: int
    restores: bool
    kind: str
    path: str | None
    begin: float
    end: float
    step: int = 0
    bytes: int | None = None
    failed: str | None = None
    unfinished: bool = False
    asynchronous: str | None = None
    state: int | None = None

    @property
    def told(self) -> str:
        """It in a few words."""
        verb = "restored" if self.restores else "handed over" if self.asynchronous == "call" else "saved"
        if self.failed or self.unfinished:
            verb = f"{'restore' if self.restores else 'save'} {self.failed or 'cut off'}:"
        size = "" if self.bytes is None else f", {self.bytes} bytes"
        return f"{verb} {self.path or 'nothing'}, {self.kind}, {self.end - self.begin:.3f} s{size}"


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One process of a task.

    Attributes:
        task: `job:index`.
        incarnation: 0 for the first process of the task.
        begin: when it was asked for, in seconds since the start of the run, as all times here.
        hello: when it could first be heard, or None. Of a program this is when it has imported TensorFlow.
        end: when its exit was seen; None if the journal ends before.
        steps: number and time of each announced training step, in order.
        exit: exit code, minus the signal number when a signal ended it.
        signal: name of that signal.
        asked: whether Lockstep ended it: a fault, a restart, or a task that is no longer needed.
        error: its first failure, or None.
        failed_at: when that was.
        planned: whether that failure was part of the plan.
        reason: why it was started, None for the first.
        counted_by: in what way its steps were counted, where it is a program.
        machine: the name of that on which it was, None for this one.
        begins_with: as `Save.state`, when it took its first gradient.
    """

    task: str
    incarnation: int
    begin: float
    hello: float | None = None
    end: float | None = None
    steps: tuple[tuple[int, float], ...] = ()
    exit: int | None = None
    signal: str | None = None
    asked: bool = False
    error: str | None = None
    failed_at: float | None = None
    planned: bool = False
    reason: str | None = None
    counted_by: str | None = None
    machine: str | None = None
    begins_with: int | None = None

    @property
    def ended(self) -> str:
        """How it ended, in a few words."""
        if self.end is None:
            return "end not seen"
        how = self.signal or f"exit code {self.exit}"
        return f"{how}, asked for" if self.asked else how


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of the plan and what came of it.

    Attributes:
        id: its name.
        kind: `kill`, `delay` and so on.
        tasks: the tasks that it strikes; none for a fault of links.
        trigger: what it waited for.
        struck: when its trigger was met and it was applied; None if that never came. The journal has this time
            where tasks stop for it, or a process or link shows it; otherwise it is that of `fired`.
        fired: when its effect was proved; None if it was not.
        undone: when it was taken back.
        effect: what was measured when it fired.
        undo_effect: what was measured when it was undone.
        problem: why it does not count as having happened.
        detected: the first failure of a process that lived when it struck and that it did not strike itself.
        recovered: the first step after it: of a new process of a task that it ended, otherwise after it was undone.
    """

    id: str
    kind: str
    tasks: tuple[str, ...] = ()
    trigger: str = ""
    struck: float | None = None
    fired: float | None = None
    undone: float | None = None
    effect: dict[str, Any] = {}
    undo_effect: dict[str, Any] = {}
    problem: str | None = None
    detected: Sighting | None = None
    recovered: Sighting | None = None

    @property
    def detection_seconds(self) -> float | None:
        """From the strike to the first failure of a peer."""
        return _since(self.struck, self.detected)

    @property
    def recovery_seconds(self) -> float | None:
        """From the strike to the first step after it."""
        return _since(self.struck, self.recovered)

    @property
    def measured(self) -> str:
        """Its effect in words; empty where nothing was measured."""
        # A time of CLOCK_MONOTONIC says nothing to a reader, who sees elsewhere when the fault struck.
        shown = {name: value for name, value in self.effect.items() if name != "began"}
        return ", ".join(f"{name} {_said(value)}" for name, value in shown.items())


class MachineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One of several machines.

    Attributes:
        name: by which users know it.
        clock_error: by how much times of what happened there may be wrong at the end, in seconds.
        silent: since when it was not heard for a while, each time.
        lost: when it was given up, or None.
        why: it was.
    """

    name: str
    clock_error: float
    silent: tuple[float, ...] = ()
    lost: float | None = None
    why: str = ""


class LinkCondition(msgspec.Struct, frozen=True):
    """A condition on links, from `begin` to `end` (None: to the end of the run)."""

    link: str
    begin: float
    end: float | None


_EARLY = {
    "interrupted": "interrupted, as by Ctrl-C: its tasks were ended before they had finished",
    "stopped": "stopped by the program that had started it: its tasks were ended before they had finished",
    "cut off": "cut off: its journal has no end, so Lockstep was killed, could write no more, or is still at it",
}


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One run.

    Attributes:
        name: of its directory, below the one that was asked for.
        topology: `3 worker`.
        tasks: every task, in order.
        seconds: from the start of the run to the last event.
        wall: when it started, in seconds of the wall clock since 1970.
        lives: every process, by task and incarnation.
        machines: those on which the tasks were, none where that was this one.
        saves: everything that was saved and restored, in the order of its begin.
        marks: the points of saves and restores at which a fault stopped a task.
        faults: those of the plan, in its order.
        conditions: of links, in the order in which they were set.
        links: final counters of each directed link, in a run with a relay.
        fenced: what was heard from processes that had been replaced, and was ignored.
        problems: what the run says against its faults.
        ending: `finished`, `failed`, `interrupted` by a signal, `stopped` by who had started it, or `cut off` if the
            journal ends before the run. None in journals of earlier versions, which did not say.
    """

    name: str
    topology: str
    tasks: tuple[str, ...]
    seconds: float
    wall: float = 0.0
    lives: tuple[Life, ...] = ()
    machines: tuple[MachineRow, ...] = ()
    saves: tuple[Save, ...] = ()
    marks: tuple[Mark, ...] = ()
    faults: tuple[FaultRow, ...] = ()
    conditions: tuple[LinkCondition, ...] = ()
    links: tuple[dict[str, Any], ...] = ()
    fenced: int = 0
    problems: tuple[str, ...] = ()
    ending: str | None = None

    @property
    def ended_early(self) -> str | None:
        """Why the run did not come to its end, in a sentence; None if it did, or nothing is known."""
        return _EARLY.get(self.ending or "")

    def lives_of(self, task: str) -> list[Life]:
        """The processes of one task, in order."""
        return [life for life in self.lives if life.task == task]

    def saves_of(self, task: str, incarnation: int | None = None) -> list[Save]:
        """What one task, or one of its processes, has saved and restored, in order."""
        return [save for save in self.saves if save.task == task and incarnation in (None, save.incarnation)]


def _said(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return " ".join(f"{key} {_said(item)}" for key, item in value.items())
    return str(value)


def _since(begin: float | None, sighting: Sighting | None) -> float | None:
    return None if begin is None or sighting is None else sighting.at - begin
