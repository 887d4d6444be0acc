"""The steps of a run as evidence: kept by the run, and followed by the process that judges it."""

from harness.recording.steps.evidence_of_run import Keeping
from harness.recording.steps.follower import Following
from harness.recording.steps.protocol import Steps
from harness.recording.steps.step_samples import Leaving

__all__ = ["Following", "Keeping", "Leaving", "Steps"]
