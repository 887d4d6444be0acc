"""How far a run may be from its reference: not at all, or by a bound computed from reruns of the reference."""

from __future__ import annotations

from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace
from harness.judging.tolerance.derived import DerivedTolerance
from harness.judging.tolerance.exact import ExactTolerance
from harness.judging.tolerance.protocol import Bound, Tolerance
from harness.judging.tolerance.rounding import FLOOR, REPORT, STATE, K, eps
from harness.judging.tolerance.whole_tensor import WholeTensor

__all__ = [
    "FLOOR",
    "REPORT",
    "STATE",
    "Bound",
    "DerivedTolerance",
    "ExactTolerance",
    "K",
    "Tolerance",
    "WholeTensor",
    "eps",
    "tolerance_of",
]


def tolerance_of(reference: Reference, run: RunTrace) -> Tolerance:
    """How far a run may differ: exact without reruns, else derived from them.

    Of a reference that follows the run it is derived also from none; then it is no more than a few roundings.
    """
    if reference.perturbed or reference.tier == "derived":
        return DerivedTolerance(reference.trace, reference.perturbed, run)
    return ExactTolerance()
