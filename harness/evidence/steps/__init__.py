"""What each step of a run began with, was given and drew: what another process needs to compute the same step."""

from harness.evidence.steps.live import Live
from harness.evidence.steps.records import DRAWN, GIVEN, Held, Passed, Place, StepEvidence, Stored
from harness.evidence.steps.run import RunEvidence, RunStep, Segment, lead, numbered, segment_of
from harness.evidence.steps.step_files import LooseWriter, loose_steps, renumbered
from harness.evidence.steps.store import EvidenceReader, EvidenceWriter, evidence_folder

__all__ = [
    "DRAWN",
    "GIVEN",
    "EvidenceReader",
    "EvidenceWriter",
    "Held",
    "Live",
    "LooseWriter",
    "Passed",
    "Place",
    "RunEvidence",
    "RunStep",
    "Segment",
    "StepEvidence",
    "Stored",
    "evidence_folder",
    "lead",
    "loose_steps",
    "numbered",
    "renumbered",
    "segment_of",
]
