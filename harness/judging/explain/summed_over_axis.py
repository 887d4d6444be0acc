"""Rules: gradients or the loss are too large by the number of devices along an axis of the mesh."""

from __future__ import annotations

from harness.judging.explain._scaling import Scaling, along_batch, along_model
from harness.judging.explain.protocol import Rule

_CURE = (
    "Usual cause: what the devices have was summed over the axis once more, after an operation on whole tensors had "
    "done so. Reduce by hand only what dtensor.unpack gave and nothing has reduced."
)

RULES: tuple[Rule, ...] = (
    Scaling("summed_over_batch", 46, along_batch, divides=False, unit="devices along the batch axis", cure=_CURE),
    Scaling("summed_over_model", 47, along_model, divides=False, unit="devices along the model axis", cure=_CURE),
)
