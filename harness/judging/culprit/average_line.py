"""The line that tells TensorFlow of too small a global batch: no step has to be watched for it."""

from __future__ import annotations

import linecache

from harness.evidence.averages import Average
from harness.judging.culprit.protocol import Culprit
from simulator.agent.places import file_and_line

__all__ = ["average_culprit"]


def average_culprit(average: Average) -> Culprit:
    """What there is to say of a line that gives the batch of one replica."""
    file, line = file_and_line(average.line) or (average.line, 0)
    source = linecache.getline(file, line).strip()
    found = f"the global batch is said to have {average.batch} examples, which is what one replica, or worker, has"
    expected = "expected as many as all have together"
    return Culprit(file, line, source, "compute_average_loss", None, found, expected, (), average.step)
