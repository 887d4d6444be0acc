"""Names the line of a program that made a run differ from its reference."""

from __future__ import annotations

from harness.judging.culprit.averaging import averaged_by
from harness.judging.culprit.by_hand import made_by_hand
from harness.judging.culprit.drawing import drawn_by
from harness.judging.culprit.feeding import fed_by
from harness.judging.culprit.find import Reported, find_culprit
from harness.judging.culprit.next_look import next_look
from harness.judging.culprit.packing import packed_by
from harness.judging.culprit.protocol import Culprit, Looked, NoCulprit

__all__ = [
    "Culprit",
    "Looked",
    "NoCulprit",
    "Reported",
    "averaged_by",
    "drawn_by",
    "fed_by",
    "find_culprit",
    "made_by_hand",
    "next_look",
    "packed_by",
]
