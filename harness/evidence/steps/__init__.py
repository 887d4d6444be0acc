"""What each step of a run began with, was given and drew: what another process needs to compute the same step."""

from harness.evidence.steps.live import LiveProcesses
from harness.evidence.steps.records import DRAWN, GIVEN, HeldVariable, PlaceValue, StepEvidence, StepPlace, Stored
from harness.evidence.steps.renaming import SAME, Renaming, places_of
from harness.evidence.steps.run import RunEvidence, RunStep, Segment, lead, numbered, segment_of
from harness.evidence.steps.standing import FOR_ALL, OWN_DRAWS, Standing
from harness.evidence.steps.step_files import StepFileWriter, loose_steps, renumbered
from harness.evidence.steps.store import EvidenceReader, EvidenceWriter, evidence_folder

__all__ = [
    "DRAWN",
    "FOR_ALL",
    "GIVEN",
    "OWN_DRAWS",
    "SAME",
    "EvidenceReader",
    "EvidenceWriter",
    "HeldVariable",
    "LiveProcesses",
    "PlaceValue",
    "Renaming",
    "RunEvidence",
    "RunStep",
    "Segment",
    "Standing",
    "StepEvidence",
    "StepFileWriter",
    "StepPlace",
    "Stored",
    "evidence_folder",
    "lead",
    "loose_steps",
    "numbered",
    "places_of",
    "renumbered",
    "segment_of",
]
