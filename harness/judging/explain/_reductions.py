"""With which factor each replica's gradients came out of the reduction, where that was seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.judging.explain._response import combined, span
from harness.judging.explain._view import CaseView, Floats

_OFF = 1e-4
"""How far, relative to what came out, a sum of the parts may be from it: rounding of float32, and not another value."""


def factors_of(view: CaseView, step: int, names: Sequence[str]) -> list[float] | None:
    """By replica, the factor with which its gradients stand in what left the reductions of a step.

    Equal ones are a sum or a mean of what the tapes gave; others show what was done to a replica's gradients before
    they were reduced.

    Returns:
        None if no reductions of such shapes were seen, or what left them is no such sum.
    """
    parts = _parts(view, step, names)
    return None if parts is None else _fitting(view.reduced(step), parts)


def is_of_others(view: CaseView, step: int, names: Sequence[str]) -> bool:
    """Whether reductions of such shapes were seen, of something else that the program had made of its gradients."""
    parts = _parts(view, step, names)
    found = None if parts is None else _in_order(view.reduced(step), parts)
    if parts is None or found is None or factors_of(view, step, names) is not None:
        return False
    # Of few numbers no factors can be told, but a sum and a mean can.
    by_replica = list(zip(*parts, strict=True))
    return all(_off(found, [factor] * view.replicas, by_replica) > _OFF for factor in (1.0, 1.0 / view.replicas))


def _parts(view: CaseView, step: int, names: Sequence[str]) -> list[list[Floats]] | None:
    """What the tapes gave, by name and replica; None unless all of it is known."""
    parts = [view.parts("gradients", step, name) for name in names]
    known = [part for part in parts if part is not None and len(part) == view.replicas]
    return known if known and len(known) == len(names) else None


def factor_of_truth(view: CaseView, step: int, names: Sequence[str]) -> float | None:
    """The factor with which the reference's gradients came out of its reduction; None if that was not seen."""
    factors = _fitting(view.reduced_truth(step), [[view.truth("gradients", step, name)] for name in names])
    return None if factors is None else factors[0]


def _fitting(reduced: Iterable[Floats], parts: Sequence[Sequence[Floats]]) -> list[float] | None:
    """The factors, by replica, of the sum that the reduced arrays are; `parts` are by array and replica."""
    found = _in_order(reduced, parts)
    if not parts or found is None:
        return None
    by_replica = list(zip(*parts, strict=True))
    factors = span(found, by_replica)
    if factors is None:
        return None
    return factors if _off(found, factors, by_replica) <= _OFF else None


def _off(found: Sequence[Floats], factors: Sequence[float], by_replica: Sequence[Sequence[Floats]]) -> float:
    """How far arrays are from such a sum, relative to the largest of their numbers."""
    off = max(_largest(one - other) for one, other in zip(found, combined(factors, by_replica), strict=True))
    return off / largest if (largest := max(map(_largest, found))) else float(off > 0)


def _in_order(reduced: Iterable[Floats], parts: Sequence[Sequence[Floats]]) -> list[Floats] | None:
    """Of what left reductions the arrays that are shaped as the gradients are, in the same order."""
    rest = iter(reduced)
    found = [next((array for array in rest if array.shape == part[0].shape), None) for part in parts]
    kept = [array for array in found if array is not None]
    return kept if len(kept) == len(found) else None


def _largest(array: Floats) -> float:
    return float(abs(array).max(initial=0.0))
