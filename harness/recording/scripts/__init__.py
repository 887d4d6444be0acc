"""Unmodified scripts as programs under test: run as they are, and as their own reference with one replica."""

from __future__ import annotations

from harness.recording.scripts.client import run_script
from harness.recording.scripts.stand_ins import BuildsNoStrategy, CannotStandIn

__all__ = ["CANNOT", "NO_STRATEGY", "run_script"]

CANNOT = CannotStandIn.__name__
"""The kind of the error with which a reference ends that cannot answer its script."""
NO_STRATEGY = BuildsNoStrategy.__name__
"""That with which a run ends whose script has no strategy of the kind that was asked for."""
