"""Lines that are known without a watched step: of pipelines, assignments, averages, layouts, closures, draws, means."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from harness.evidence.assignments import Assignment
from harness.evidence.averages import Average
from harness.evidence.pipelines import Pipeline
from harness.evidence.trace import ArgumentSeen, DrawSeen, MeanSeen
from harness.judging.culprit.kinds import GIVEN
from harness.judging.culprit.protocol import Culprit, NoCulprit
from harness.judging.laws.protocol import Finding
from simulator.agent.places import file_and_line, source_at


def pipeline_culprit(pipelines: Sequence[Pipeline], kinds: Sequence[str], said: str, step: int) -> Culprit | NoCulprit:
    """The line that a mistake in the input pipeline is made at, or why it is not known.

    Args:
        pipelines: what the first client has iterated.
        kinds: the transformations that may have made the mistake, as `Transformation.kind` calls them. Where a pipeline
            has none of them, it is the one that is missing, and the line is where the pipeline is given to replicas.
        said: what is wrong with what it gives.
        step: at which it was seen first.
    """
    before = [each for each in pipelines if each.step <= step]
    distributed = [each for each in before if each.distributed is not None]
    found = {_line(each, kinds): each for each in reversed(distributed or before)}
    if not found:
        return NoCulprit("no data set was seen to be iterated before that step")
    if len(found) > 1:
        lines = ", ".join(sorted(line for line, _ in found))
        return NoCulprit(f"it may be made at any of these lines of input pipelines: {lines}")
    (((where, kind), pipeline),) = found.items()
    file, line = file_and_line(where) or (where, 0)
    source = source_at(file, line)
    by_line = itertools.groupby(reversed(pipeline.made), key=lambda each: each.line)
    made = tuple(f"{', '.join(each.kind for each in there)} at {place}" for place, there in by_line)
    expected = f"given to the strategy at {pipeline.line}" if pipeline.distributed else f"iterated at {pipeline.line}"
    return Culprit(file, line, source, kind, None, said, expected, made, step)


def _line(pipeline: Pipeline, kinds: Sequence[str]) -> tuple[str, str]:
    """The line of the last of these transformations, or of what gives the pipeline to replicas, and what that is."""
    for each in pipeline.made:
        if each.kind in kinds:
            return each.line, each.kind
    if pipeline.distributed == "function" and pipeline.made:
        return pipeline.made[0].line, pipeline.made[0].kind  # where it ends without
    return pipeline.line, "data set"


def assignment_culprit(found: Assignment, said: str, expected: str, step: int) -> Culprit | None:
    """What there is to say of a line that assigns a variable between steps; None where it is not known.

    Args:
        found: the line.
        said: what is wrong with what it gives.
        expected: what should be.
        step: at which it was seen first.
    """
    if (where := file_and_line(found.line)) is None:
        return None
    return Culprit(*where, source_at(*where), "assign", None, said, expected, (), step, assigned=found.variable)


def argument_culprit(found: ArgumentSeen, said: str, step: int) -> Culprit | None:
    """What there is to say of a line that gives a step a number, as `assignment_culprit` does."""
    if (where := file_and_line(found.line)) is None:
        return None
    expected = "expected the number of one device"
    return Culprit(*where, source_at(*where), "call", None, said, expected, (), step, kind=GIVEN.code)


def restoring_culprit(line: str, said: str, expected: str, step: int) -> Culprit | None:
    """What there is to say of a line that restores; None where it is not known. See `assignment_culprit`."""
    if (where := file_and_line(line)) is None:
        return None
    return Culprit(*where, source_at(*where), "restore", None, said, expected, (), step)


def average_culprit(average: Average) -> Culprit:
    """What there is to say of a line that gives the batch of one replica."""
    file, line = file_and_line(average.line) or (average.line, 0)
    source = source_at(file, line)
    found = f"the global batch is said to have {average.batch} examples, which is what one replica, or worker, has"
    expected = "expected as many as all have together"
    return Culprit(file, line, source, "compute_average_loss", None, found, expected, (), average.step)


def layout_culprit(where: str, step: int) -> Culprit | None:
    """What there is to say of a line that packs copies which differ; None where it is not known."""
    if (found := file_and_line(where)) is None:
        return None
    file, line = found
    said = "the devices are given different copies of one tensor"
    return Culprit(file, line, source_at(file, line), "pack", None, said, "expected equal ones", (), step)


def closure_culprit(where: str) -> Culprit | None:
    """What there is to say of a line that schedules closures nobody waits for; None where it is not known."""
    if (found := file_and_line(where)) is None:
        return None
    file, line = found
    said = "nobody waits for this closure before the program reports"
    return Culprit(file, line, source_at(file, line), "schedule", None, said, "expected a join or fetch", (), 1)


_EXPECTED = {
    "equal": "expected other numbers for other examples",
    "again": "expected other numbers than were drawn before",
    "unlike": "expected numbers from the distribution that one device draws from",
}


def draw_culprit(draw: DrawSeen, step: int) -> Culprit | None:
    """What there is to say of a draw; None where its line is not known.

    Args:
        draw: one that is wrong.
        step: at which it was seen.
    """
    if (found := file_and_line(draw.where)) is None:
        return None
    file, line = found
    source = source_at(file, line)
    return Culprit(file, line, source, draw.operation, None, draw.text, _EXPECTED[draw.kind], (), step)


def mean_culprit(mean: MeanSeen, found: Finding) -> Culprit | None:
    """What there is to say of a line that updates a mean of Keras; None where it is not known.

    Args:
        mean: what replicas have added to it.
        found: says what it has to be.
    """
    if (line := file_and_line(mean.where)) is None or found.observed is None or found.expected is None:
        return None
    source = source_at(*line)
    said = f"the mean of what the replicas add here is {found.observed:.6g}"
    return Culprit(*line, source, "update_state", None, said, f"expected {found.expected:.6g}", (), found.step or 1)
