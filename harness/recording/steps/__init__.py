"""The steps of a run as evidence: kept by the run, and followed by the process that judges it."""

from harness.recording.steps.evidence_of_run import RunEvidenceWriter
from harness.recording.steps.follower import Follower
from harness.recording.steps.protocol import Steps
from harness.recording.steps.step_samples import SampleWriter

__all__ = ["Follower", "RunEvidenceWriter", "SampleWriter", "Steps"]
