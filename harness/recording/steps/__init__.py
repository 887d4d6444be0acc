"""The steps of a run as evidence: kept by the run, and followed by the process that judges it."""

from harness.recording.steps.following import Following
from harness.recording.steps.keeping import Keeping
from harness.recording.steps.leaving import Leaving
from harness.recording.steps.protocol import Steps

__all__ = ["Following", "Keeping", "Leaving", "Steps"]
