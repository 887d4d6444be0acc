"""Did it recover? One sentence on what faults and failures have interrupted: who was back when, and what was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from harness.report.incarnations import ProcessHistory, histories_of
from harness.report.timeline.faults import ended_by
from harness.report.timeline.model import FaultRow, Life, Timeline
from simulator.results import Incarnation, Saved


class Recovery(msgspec.Struct, frozen=True):
    """What became of a run after what interrupted it last.

    Attributes:
        task: that had ended first; None where no process had, as of a link.
        after: the fault that struck, by its name; None for a failure that was not planned.
        restarts: of the tasks, how often that was which started again most often.
        seconds: from there to the next step, or for want of steps to the next process; None if none came.
        steps: that the job has made since then.
        lost: steps of the job that were made and not gone on from, over all restarts; None where that is not known.
        meanwhile: that were made while a fault was in force that has ended nobody.
        ended_well: whether the task got to its end without a further step: in the time that a fault left it, or when it
            was started again with nothing left to do.
    """

    task: str | None
    after: str | None
    restarts: int
    seconds: float | None
    steps: int
    lost: int | None
    meanwhile: int = 0
    ended_well: bool = False

    @property
    def text(self) -> str:
        """It as a sentence."""
        if self.ended_well:
            again = "was started again, made no step and ended well" if self.restarts else "ended well"
            return f"nothing to recover: {self.task} {again} after {self.after or 'its end'}"
        if self.seconds is None:
            again = "was started again, and made no step" if self.restarts else "did not come back"
            return f"not recovered: {self.task} {again} after {self.after or 'its end'}"
        if self.task is None and self.meanwhile:
            made = f"{self.meanwhile} step{' was' if self.meanwhile == 1 else 's were'} made"
            return f"went on: {made} while {self.after} was in force; {_more(self.steps)}"
        if self.task is None:
            return f"recovered: the next step came {self.seconds:.1f} s after {self.after}; {_more(self.steps)}"
        often = f", the last of {self.restarts} times," if self.restarts > 1 else ""
        back = f"recovered: {self.task} was back{often} {self.seconds:.1f} s after {self.after or 'its end'}"
        return f"{back}; {_more(self.steps)}; {_lost(self.lost)}"

    @property
    def as_data(self) -> dict[str, Any]:
        """It as JSON types, the sentence among them."""
        return {**msgspec.to_builtins(self), "text": self.text}


def _more(steps: int) -> str:
    return f"{steps} more step{'' if steps == 1 else 's'}"


def _lost(lost: int | None) -> str:
    if lost is None:
        return "how many steps were lost is not known"
    return "no step was lost" if not lost else f"{lost} step{' was' if lost == 1 else 's were'} lost"


def recovery_of(timeline: Timeline) -> Recovery | None:
    """What came after the last interruption; None if nothing has ended a process early or disturbed one.

    A run that was ended from outside, or is still on, answers nothing.
    """
    if timeline.ended_early:
        return None
    ended = sorted(_interrupted(timeline), key=lambda life: _when(life, timeline))
    if not ended:
        return _disturbed(timeline)
    # All that end within one restart are one interruption: who was asked to end has only followed.
    first = next((life for life in ended if life.begin >= _last_start(ended)), ended[-1])
    fault = _fault_of(first, timeline)
    began = fault.struck if fault is not None and fault.struck is not None else _when(first, timeline)
    back, last = _back(first, timeline), timeline.lives_of(first.task)[-1]
    return Recovery(
        first.task,
        None if fault is None else fault.id,
        max(life.incarnation for life in timeline.lives),
        None if back is None else max(0.0, back - began),
        0 if back is None else _steps_from(back, timeline.lives),
        _steps_lost(timeline),
        ended_well=back is None and last.exit == 0 and (last is first or not last.asked),
    )


def _interrupted(timeline: Timeline) -> Iterator[Life]:
    """Processes that another one has replaced, or that a fault has ended for good."""
    last = {life.task: life for life in timeline.lives}
    yield from (life for life in timeline.lives if life is not last[life.task])
    yield from (life for row in timeline.faults for life in ended_by(row, timeline.lives) if life is last[life.task])


def _when(life: Life, timeline: Timeline) -> float:
    times = [each for each in (life.failed_at, life.end) if each is not None]
    return min(times, default=timeline.seconds)


def _last_start(ended: Sequence[Life]) -> float:
    """When the processes began of which one has ended last."""
    return min(life.begin for life in ended if life.incarnation == max(each.incarnation for each in ended))


def _fault_of(life: Life, timeline: Timeline) -> FaultRow | None:
    """The fault that has ended a process, or the last one that had struck when it failed by itself."""
    until = _when(life, timeline)
    struck = [row for row in timeline.faults if row.struck is not None and life.begin <= row.struck <= until]
    own = [row for row in struck if life.task in row.tasks]
    return max(own or struck, key=lambda row: row.struck or 0.0, default=None)


def _back(ended: Life, timeline: Timeline) -> float | None:
    """When the first step was made after a process: by those that follow it, or, of servers, by anybody."""
    again = [life for life in timeline.lives_of(ended.task) if life.incarnation > ended.incarnation]
    if not again:
        return None
    begin = min(life.begin for life in again)
    server = not any(life.steps for life in timeline.lives_of(ended.task))
    if server and not any(life.steps for life in timeline.lives):
        there = (life for life in again if life.failed_at is None and (life.asked or not life.exit))
        return min((life.hello or life.begin for life in there), default=None)
    lives = timeline.lives if server else again
    return min((at for life in lives for _, at in life.steps if at >= begin), default=None)


def _steps_from(at: float, lives: Sequence[Life]) -> int:
    """Of the task that has made most."""
    return max((sum(when >= at for _, when in life.steps) for life in lives), default=0)


def _steps_lost(timeline: Timeline) -> int | None:
    processes = {
        task: [_process(life, timeline) for life in timeline.lives_of(task)]
        for task in timeline.tasks
        if not task.startswith("evaluator")
    }
    if any(task.startswith("ps") and len(each) > 1 for task, each in processes.items()):
        return None  # what a server has held is in no step of its own
    histories = histories_of(processes)
    each = [_sum(history) for history in histories.values()]
    return None if None in each else max((lost for lost in each if lost is not None), default=0)


def _sum(history: Sequence[ProcessHistory]) -> int | None:
    lost = [chapter.lost for chapter in history]
    return None if None in lost else sum(each for each in lost if each is not None)


def _process(life: Life, timeline: Timeline) -> Incarnation:
    saves = tuple(
        Saved(save.kind, save.path, save.step, save.restores, save.failed, save.unfinished, save.state)
        for save in timeline.saves_of(life.task, life.incarnation)
    )
    steps = life.steps[-1][0] if life.steps else 0
    ended = (life.incarnation, life.exit, life.signal, None, steps, life.asked)
    return Incarnation(*ended, saves=saves, begins_with=life.begins_with)


def _disturbed(timeline: Timeline) -> Recovery | None:
    """What came after the last fault that has struck and was taken back, and has ended nobody."""
    struck = [row for row in timeline.faults if row.struck is not None and row.undone is not None and not row.problem]
    if not struck or not any(life.steps for life in timeline.lives):
        return None
    last = max(struck, key=lambda row: row.struck or 0.0)
    if last.recovered is None:
        return None  # its task may have been done
    begin, end = last.struck or 0.0, last.undone or 0.0
    struck_lives = [life for life in timeline.lives if life.task in last.tasks and life.steps] or timeline.lives
    during = [[at for _, at in life.steps if begin < at < end] for life in struck_lives]
    seconds = min((at for each in during for at in each), default=last.recovered.at) - begin
    steps = _steps_from(last.recovered.at, timeline.lives)
    return Recovery(None, last.id, 0, seconds, steps, 0, max(map(len, during), default=0))
