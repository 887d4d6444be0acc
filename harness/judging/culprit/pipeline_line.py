"""The line of an input pipeline that gives replicas the wrong examples: no step has to be watched for it."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Sequence

from harness.evidence.pipelines import Pipeline
from harness.judging.culprit.protocol import Culprit, NoCulprit
from simulator.agent.places import file_and_line

__all__ = ["pipeline_culprit"]


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
    source = linecache.getline(file, line).strip()
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
