"""Cures that are tried: a change of the lines that a diagnostic is about, and the verdict on the program with it."""

from __future__ import annotations

from harness.cures.trials import NoCure, TriedCure, try_cures

__all__ = ["NoCure", "TriedCure", "try_cures"]
