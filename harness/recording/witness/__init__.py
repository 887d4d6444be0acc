"""Sees what a program does at TensorFlow's and Keras's own seams, without being told; a new file is a new seam."""

from __future__ import annotations

from typing import cast

from _lockstep.kinds import kinds_of
from harness.recording.witness._witness import Witness
from harness.recording.witness.protocol import Seam

__all__ = ["Seam", "Witness", "all_seams"]


def all_seams() -> tuple[Seam, ...]:
    """Every seam of this package: what marks a call as a step is around all others, what changes it inside of them."""
    return tuple(cast("Seam", each) for each in sorted(kinds_of(__name__), key=_layer))


def _layer(module: object) -> int:
    return int(getattr(module, "AROUND", False)) - int(getattr(module, "INSIDE", False))
