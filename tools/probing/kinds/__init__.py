"""The kinds of classes, one file each; a kind that is added here is run and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.probing.kinds import augmentations, fits, layers, losses, metrics, optimizers

if TYPE_CHECKING:
    from tools.probing.kinds.protocol import Kind

__all__ = ["KINDS"]

KINDS: dict[str, Kind] = {
    "layers": layers.KIND,
    "augmentations": augmentations.KIND,
    "losses": losses.KIND,
    "metrics": metrics.KIND,
    "optimizers": optimizers.KIND,
    "fits": fits.KIND,
}
