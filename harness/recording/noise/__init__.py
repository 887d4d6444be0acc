"""Rounding-sized noise for extra reference runs, whose spread is the unit of the derived tolerance."""

from harness.recording.noise._noise import SEAMS, Noise

__all__ = ["SEAMS", "Noise"]
