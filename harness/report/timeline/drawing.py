"""Where everything of a timeline stands in its picture: plain shapes, which a template writes as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from harness.report.timeline.model import FaultRow, Life, LinkCondition, MachineRow, Save, Timeline

_LEFT, _RIGHT, _TOP = 92.0, 16.0, 28.0
_LANE, _ROW = 38.0, 30.0
_WIDTH, _WIDTH_MAX, _PER_STEP = 1000.0, 2400.0, 2.0
_AXIS_MARKS = 10
_HOVERS_MAX = 250
_LABEL_PIXELS = 24.0
_SAVE_PIXELS = 2.5
_TOLD_MAX = 5


@dataclass(frozen=True)
class Shape:
    """An SVG element: `rect` (x, y, width, height), `path` (d) or `text` (x, y, words)."""

    tag: str
    style: str
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0
    d: str = ""
    words: str = ""
    anchor: str = "start"
    title: str = ""


@dataclass(frozen=True)
class Drawing:
    """A picture of `width` by `height` pixels."""

    width: float
    height: float
    title: str
    shapes: list[Shape] = field(default_factory=list)


def draw(timeline: Timeline) -> Drawing:
    """A lane for each task, below them one for each machine, and rows of faults and conditions of links, over time.

    The picture is wider than a page when some task has announced more steps than the page has room for.
    """
    most = max((sum(len(life.steps) for life in timeline.lives_of(task)) for task in timeline.tasks), default=0)
    width = min(_WIDTH_MAX, max(_WIDTH, _LEFT + _RIGHT + _PER_STEP * most))
    conditions = _rows(timeline.conditions)
    lanes = _LANE * len(timeline.tasks)
    height = _TOP + lanes + _ROW * (len(timeline.machines) + len(timeline.faults) + len(conditions)) + 8.0
    picture = _Picture(timeline, width, height)
    shapes = [*picture.axis(), *(shape for fault in timeline.faults for shape in picture.strike(fault, lanes))]
    for number, task in enumerate(timeline.tasks):
        shapes += picture.lane(task, _TOP + _LANE * number)
    top = _TOP + lanes
    for machine in timeline.machines:
        shapes += picture.machine(machine, top)
        top += _ROW
    for fault in timeline.faults:
        shapes += picture.fault(fault, top)
        top += _ROW
    for link, times in conditions.items():
        shapes += picture.condition(link, times, top)
        top += _ROW
    return Drawing(width, height, f"{timeline.topology}, {timeline.seconds:.1f} s", shapes)


def _rows(conditions: Sequence[LinkCondition]) -> dict[str, list[LinkCondition]]:
    """A row for each different condition: one that comes and goes has one row."""
    rows: dict[str, list[LinkCondition]] = {}
    for condition in conditions:
        rows.setdefault(condition.link, []).append(condition)
    return rows


@dataclass(frozen=True)
class _Picture:
    timeline: Timeline
    width: float
    height: float

    def x(self, at: float) -> float:
        """Pixels of a time."""
        share = at / self.timeline.seconds if self.timeline.seconds > 0 else 0.0
        return round(_LEFT + (self.width - _LEFT - _RIGHT) * share, 1)

    def axis(self) -> Iterator[Shape]:
        """Lines at round numbers of seconds."""
        step = nice_step(self.timeline.seconds / _AXIS_MARKS)
        for number in range(int(self.timeline.seconds / step) + 1):
            x = self.x(number * step)
            yield Shape("path", "grid", d=f"M{x} {_TOP - 6}V{self.height - 4}")
            yield Shape("text", "axis", x=x, y=_TOP - 11, words=f"{number * step:g} s", anchor="middle")

    def lane(self, task: str, top: float) -> Iterator[Shape]:
        """Its processes with their steps, saves, failures and recoveries."""
        yield Shape("text", "name", x=_LEFT - 10, y=top + 18, words=task, anchor="end")
        for life in self.timeline.lives_of(task):
            yield from self._life(life, top)
        yield from self._saves(task, top)
        for mark in self.timeline.marks:
            if mark.task == task:
                x = self.x(mark.at)
                yield Shape("path", "save", d=f"M{x} {top + 2}v22", title=f"{task} {mark.what} at {mark.at:.3f} s")
        for fault in self.timeline.faults:
            for style, sighting, word in (
                ("detected", fault.detected, "seen by"),
                ("recovered", fault.recovered, "recovered:"),
            ):
                if sighting is not None and sighting.task == task:
                    title = f"{fault.id} {word} {task} at {sighting.at:.3f} s: {sighting.what}"
                    yield Shape("path", style, d=_symbol(style, self.x(sighting.at), top + 13), title=title)

    def _life(self, life: Life, top: float) -> Iterator[Shape]:
        end = self.timeline.seconds if life.end is None else life.end
        begin, stop = self.x(life.begin), self.x(end)
        error = (life.error or "").partition("\n")[0]  # a stack is nothing for a hover
        told = f"{life.task}, incarnation {life.incarnation}: {life.begin:.2f} to {end:.2f} s, "
        told += f"on {life.machine}, " if life.machine else ""
        told += f"{len(life.steps)} steps, {life.ended}" + (f"\n{error}" if error else "")
        yield Shape("rect", "life", begin, top + 2, max(1.0, round(stop - begin, 1)), 22, title=told)
        if life.steps:
            first = self.x(life.steps[0][1])
            yield Shape("rect", "starting", begin, top + 2, max(0.0, round(first - begin, 1)), 22, title=told)
        yield from self._steps(life, top)
        if life.failed_at is not None and not life.planned:
            x = self.x(life.failed_at)
            yield Shape("path", "failure", d=f"M{x - 4} {top + 9}l8 8m0 -8l-8 8", title=told)
        elif life.signal is not None or life.exit:
            yield Shape("path", "end", d=f"M{stop} {top + 1}v24", title=told)

    def _saves(self, task: str, top: float) -> Iterator[Shape]:
        """A bar below its process for each save and restore; those that cannot be told apart are drawn once."""
        places: dict[tuple[str, float, float], list[Save]] = {}
        for save in self.timeline.saves_of(task):
            begin = self.x(save.begin)
            width = max(_SAVE_PIXELS, round(self.x(save.end) - begin, 1))
            places.setdefault((_style(save), begin, width), []).append(save)
        for (style, begin, width), saves in places.items():
            told = "\n".join(f"{task}: {save.told}, at {save.begin:.3f} s" for save in saves[:_TOLD_MAX])
            told += f"\nand {len(saves) - _TOLD_MAX} more" if len(saves) > _TOLD_MAX else ""
            yield Shape("rect", style, begin, top + 23, width, 4.5, title=told)

    def _steps(self, life: Life, top: float) -> Iterator[Shape]:
        """A tick each, numbers where there is room, and what the pointer shows; ticks on one pixel are drawn once."""
        places = {self.x(at): number for number, at in life.steps}
        if not places:
            return
        yield Shape("path", "step", d="".join(f"M{x} {top + 5}v16" for x in places))
        group = max(1, math.ceil(len(life.steps) / _HOVERS_MAX))
        before = self.x(life.steps[0][1]) - 3
        for first in range(0, len(life.steps), group):
            some = life.steps[first : first + group]
            x = self.x(some[-1][1])
            number = f"step {some[0][0]}" if len(some) == 1 else f"steps {some[0][0]} to {some[-1][0]}"
            told = f"{life.task} {number}, at {some[-1][1]:.3f} s"
            yield Shape("rect", "hover", before, top + 2, max(0.5, round(x - before, 1)), 22, title=told)
            before = x
        yield from self._numbers(places, top)

    def _numbers(self, places: dict[float, int], top: float) -> Iterator[Shape]:
        """The last step's number always, of the others as many as there is room for."""
        end, last = next(reversed(places.items()))
        free = -math.inf
        for x, number in places.items():
            fits = free <= x <= end - _LABEL_PIXELS and (number == 1 or number % 5 == 0)
            if fits or number == last:
                yield Shape("text", "number", x=x, y=top + 33, words=str(number), anchor="middle")
                free = x + _LABEL_PIXELS

    def machine(self, machine: MachineRow, top: float) -> Iterator[Shape]:
        """From the start to its loss, with the names of the tasks where they began there."""
        yield Shape("text", "name", x=_LEFT - 10, y=top + 20, words=machine.name, anchor="end")
        end = self.timeline.seconds if machine.lost is None else machine.lost
        told = f"{machine.name}, clock known to {1e3 * machine.clock_error:.2f} ms"
        told += "" if machine.lost is None else f"; lost at {machine.lost:.3f} s: {machine.why}"
        yield Shape("rect", "link", self.x(0.0), top + 16, max(2.0, round(self.x(end) - self.x(0.0), 1)), 7, title=told)
        began: dict[float, list[str]] = {}
        for life in self.timeline.lives:
            if life.machine == machine.name:
                began.setdefault(self.x(life.begin), []).append(life.task)
        for x, tasks in began.items():
            yield self._beside(x, top + 11, ", ".join(dict.fromkeys(tasks)), "label")
        for at in machine.silent:
            yield Shape("path", "end", d=f"M{self.x(at)} {top + 13}v13", title=f"not heard from {at:.3f} s on")
        if machine.lost is not None:
            yield Shape("path", "failure", d=f"M{self.x(end) - 4} {top + 15.5}l8 8m0 -8l-8 8", title=told)

    def strike(self, fault: FaultRow, lanes: float) -> Iterator[Shape]:
        """A line through all lanes where it struck."""
        if fault.struck is not None:
            title = f"{fault.id} struck at {fault.struck:.3f} s"
            yield Shape("path", "strike", d=f"M{self.x(fault.struck)} {_TOP - 4}V{_TOP + lanes}", title=title)

    def fault(self, fault: FaultRow, top: float) -> Iterator[Shape]:
        """From the strike to the undo, with the proof, the detection and the recovery."""
        yield Shape("text", "name", x=_LEFT - 10, y=top + 20, words=fault.id, anchor="end")
        if fault.struck is None:
            yield Shape("text", "problem", x=_LEFT, y=top + 20, words=f"{fault.trigger}: {fault.problem}")
            return
        end = self.timeline.seconds if fault.undone is None else fault.undone
        told = [f"{fault.kind}, {fault.trigger}"]
        if fault.detection_seconds is not None and fault.detected is not None:
            told.append(f"{fault.detected.task} failed after {fault.detection_seconds:.2f} s")
        if fault.recovery_seconds is not None:
            told.append(f"next step after {fault.recovery_seconds:.2f} s")
        begin = self.x(fault.struck)
        yield self._beside(begin, top + 11, ", ".join(told), "label")
        title = f"{fault.id}: {fault.struck:.3f} to {end:.3f} s; {fault.measured}"
        if fault.problem:
            title += f"; {fault.problem}"
        yield Shape("rect", "fault", begin, top + 16, max(2.0, round(self.x(end) - begin, 1)), 7, title=title)
        for style, sighting in (("detected", fault.detected), ("recovered", fault.recovered)):
            if sighting is not None:
                symbol = _symbol(style, self.x(sighting.at), top + 19.5)
                yield Shape("path", style, d=symbol, title=f"{style}: {sighting.task}, {sighting.what}")

    def condition(self, link: str, times: Sequence[LinkCondition], top: float) -> Iterator[Shape]:
        """The times in which it was in force."""
        yield Shape("text", "name", x=_LEFT - 10, y=top + 20, words="link", anchor="end")
        yield self._beside(self.x(times[0].begin), top + 11, link, "label")
        for each in times:
            end = self.timeline.seconds if each.end is None else each.end
            begin = self.x(each.begin)
            title = f"{link}: {each.begin:.3f} to {end:.3f} s"
            yield Shape("rect", "link", begin, top + 16, max(2.0, round(self.x(end) - begin, 1)), 7, title=title)

    def _beside(self, x: float, y: float, words: str, style: str) -> Shape:
        """Text that begins here, or ends here where it would leave the picture."""
        late = x > _LEFT + 0.55 * (self.width - _LEFT)
        return Shape("text", style, x=x, y=y, words=words, anchor="end" if late else "start")


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`; 1 for none."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9)))


def _style(save: Save) -> str:
    if save.failed or save.unfinished:
        return "unsaved"
    if save.restores:
        return "restored"
    return "writing" if save.asynchronous == "thread" else "saved"


def _symbol(style: str, x: float, y: float) -> str:
    """A triangle for a detection, a disc for a recovery."""
    if style == "detected":
        return f"M{x - 5} {y + 5}h10l-5 -10z"
    return f"M{x - 4.5} {y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0"


def timeline_page(timelines: Sequence[Timeline], again: str = "") -> str:
    """Render the page: a picture for each run, and the tables of its faults and links."""
    from harness.report.templates import rendered

    drawn = [(timeline, draw(timeline)) for timeline in timelines]
    return rendered("timeline.html", again=again, drawn=drawn)


def timeline_svg(timeline: Timeline) -> str:
    """Render the picture alone, as a file that carries its own styles."""
    from harness.report.templates import rendered

    return rendered("timeline.svg.j2", drawing=draw(timeline), alone=True) + "\n"
