"""Judges the steps that a job has left as evidence, on this machine and at any time, while it trains or afterwards."""

from harness.live.findings import StepFinding, StepJudged
from harness.live.judge import Judge

__all__ = ["Judge", "StepFinding", "StepJudged"]
