"""Rule: arrays that a generator yields were written over during training, so that later epochs read other data."""

from __future__ import annotations

from collections.abc import Iterable

from harness.evidence.witness_values import overwritten
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule

_ID = "data_overwritten"
_CURE = (
    "TensorFlow takes what a generator yields without a copy, and where batches are split for replicas it puts results "
    "into that memory: whoever reads it again reads them. Yield copies (array.copy()), or use "
    "tf.data.Dataset.from_tensor_slices, which copies. See tf-generator-written-over among the known issues."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    """Seen in the process, and not in the reference's; at the first step nothing was written over yet."""
    found = overwritten((view.case.reference, view.case.run))
    at_first = any(view.wrong(what, step) for what in view.run for step in view.steps(what)[:1])
    if found and not at_first:
        yield evident(_ID, f"{'; '.join(found)}, and none in the reference.")


RULES: tuple[Rule, ...] = (Predicting(_ID, 6, _attempts, cure=_CURE),)
