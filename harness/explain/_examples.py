"""What the rules about examples share: the overall multisets, and how to list ids."""

from __future__ import annotations

from collections import Counter

from harness.consumed import by_step, recorders
from harness.explain.protocol import Case

__all__ = ["listed", "totals"]

_SHOWN_MAX = 8


def totals(case: Case) -> tuple[int, Counter[int], Counter[int]] | None:
    """The first wrong step, and all examples of the run and of the reference.

    None when a client recorded no examples or nothing is wrong. The multisets are over all common steps, so that a mere
    change of order between steps is no explanation.
    """
    ours, silent = recorders(case.run)
    if silent or not ours or not recorders(case.reference)[0]:
        return None
    pairs = by_step(case)
    first = next((step for step, seen, truth in pairs if seen != truth), None)
    if first is None:
        return None
    seen = sum((seen for _, seen, _ in pairs), Counter[int]())
    truth = sum((truth for _, _, truth in pairs), Counter[int]())
    return (first, seen, truth) if truth else None


def listed(ids: Counter[int]) -> str:
    """`3 examples (ids 1, 5, 9)`."""
    plural = "s" if len(ids) > 1 else ""
    shown = ", ".join(map(str, sorted(ids)[:_SHOWN_MAX])) + (", ..." if len(ids) > _SHOWN_MAX else "")
    return f"{len(ids)} example{plural} (id{plural} {shown})"
