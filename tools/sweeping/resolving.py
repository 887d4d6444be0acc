"""What a verdict says it could have seen at one number: its bound there, and whether the number was judged at all."""

from __future__ import annotations

from typing import Any

from harness.judging.tolerance import Tolerance
from harness.judging.verdict import Verdict
from tools.sweeping.injecting import SIZE, Injection

JUDGED_MAX = 1e-2
"""A number whose bound is a larger share of it is not judged."""


def stated(verdict: Verdict) -> Any:
    """The resolution of a verdict in its JSON form; None where verdicts state none."""
    return None if getattr(verdict, "resolution", None) is None else verdict.to_json().get("resolution")


def bound_at(tolerance: Tolerance, injection: Injection) -> float | None:
    """How far the number may be from the reference's: of one bound for the whole array, or of one for each element."""
    import numpy as np

    bound = np.asarray(tolerance.bound(injection.observable, injection.name, injection.step), dtype=np.float64)
    if bound.ndim == 0:
        return float(bound)
    try:
        shown = np.broadcast_to(bound, np.maximum(bound.shape, np.array(injection.index) + 1))
    except ValueError:
        return None
    return float(shown[injection.index])


def excused(verdict: Verdict, injection: Injection, bound: float | None) -> str | None:
    """Why an error that was not found was not to be found, as the verdict says; None if it says nothing of that.

    `not judged`: the bound exceeds a hundredth of the number, and the verdict counts numbers of this observable that it
    does not judge. `coarser`: the number is judged, but the loosest resolution that the verdict states for the
    observable is coarser than the error, and so is that of the number.
    """
    said = (stated(verdict) or {}).get(injection.observable)
    if said is None or bound is None:
        return None
    share = bound / abs(injection.expected)
    if share > JUDGED_MAX:
        return "not judged" if said["not_judged"] else None
    loosest = said["loosest"]
    # A right run may use up all of its bound, in the other direction than the error.
    coarse = min(2 * share, 0.0 if loosest is None else 2 * loosest["error"])
    return "coarser" if coarse > SIZE else None
