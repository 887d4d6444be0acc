"""The line that gives a variable its value between two steps, where that is the first thing that is wrong."""

from __future__ import annotations

from harness.evidence.assignments import Assignment
from harness.evidence.trace import RunTrace
from harness.judging.culprit import Culprit, assignment_culprit
from harness.judging.explain.set_by_each_worker import SET_BY_EACH
from harness.judging.laws.protocol import Finding
from harness.judging.verdict import Verdict

_OF_ONE = "one device does not give it that value"


def set_between_steps(verdict: Verdict, run: RunTrace, reference: RunTrace, *, resumed: bool = False) -> Culprit | None:
    """That line; None where it is not known, or where the step itself may have made the variable wrong.

    Args:
        verdict: of a run.
        run: what was judged, of a run in parts the last one.
        reference: of one device.
        resumed: whether there are earlier ones. Then what this one begins with is known, and what it was given after
            it had restored.
    """
    first = verdict.first_divergence
    if first is None or first.variable is None or first.step is None:
        return None
    if first.observable == "start":
        lines = _lines(run, first, 0 if resumed else first.step - 1)[0]
        return _told(lines, f"variable {first.variable!r} is given a wrong value here", _OF_ONE, first.step)
    at = "replicas_agree", "variables", first.step, first.variable
    apart = any((each.law, each.observable, each.step, each.variable) == at for each in verdict.findings)
    if resumed or first.observable != "variables":
        return None
    of_each = _lines(run, first, first.step)
    if not apart:
        return _of_one_side(first, of_each, _lines(reference, first, first.step))
    each_sets = verdict.explanation is not None and verdict.explanation.rule == SET_BY_EACH
    giving = [number for number, lines in enumerate(of_each) if lines]
    tasks = [client.header.task for client in run.clients]
    if giving and len(giving) < len(of_each):
        who = ", ".join(tasks[number] for number in giving)
        said = f"variable {first.variable!r} is given a value here on {who}, and on no other task"
    elif giving and each_sets:
        said = f"variable {first.variable!r} is given another value here by each worker"
    else:
        return None
    lines = [line for each in of_each for line in each]
    return _told(lines, said, "expected all to give it the same", first.step)


def _of_one_side(found: Finding, ours: list[list[Assignment]], theirs: list[list[Assignment]]) -> Culprit | None:
    """Where only the run gives it a value, or only one device does: else the step may have made it wrong."""
    run, alone = ([line for each in lines for line in each] for lines in (ours, theirs))
    if run and alone:
        return None
    where = "here, and one device does not" if run else "here on one device, and the run does not"
    said = f"variable {found.variable!r} is given a value {where}"
    return _told(run or alone, said, "expected both to give it the same", found.step or 1)


def _lines(run: RunTrace, found: Finding, after: int) -> list[list[Assignment]]:
    """By client the lines that gave a wrong variable a value after a step, before the next one."""
    return [
        [each for each in client.counters.assigned if each.variable == found.variable and each.is_after(after)]
        for client in run.clients
    ]


def _told(lines: list[Assignment], said: str, expected: str, step: int) -> Culprit | None:
    """Of several lines nobody knows which one is to mend."""
    known = {each.line: each for each in lines}
    return assignment_culprit(next(iter(known.values())), said, expected, step) if len(known) == 1 else None
