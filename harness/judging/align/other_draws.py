"""Steps that one replica cannot compute, such as those in which each replica draws numbers that belong to no example.

Nothing is said of what they leave. What the step was given, and whether replicas agree, is judged like that of others.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.evidence.trace import RunTrace

_SHOWN = 8


def steps_with_other_draws(reference: RunTrace) -> dict[int, str]:
    """By step of the reference why it is apart."""
    steps = reference.clients[0].steps
    return {step.index: step.seen.apart for step in steps if step.seen is not None and step.seen.apart is not None}


def told(apart: Mapping[int, str], reference: RunTrace) -> tuple[str, ...]:
    """A sentence for each reason."""
    by_reason: dict[str, list[int]] = {}
    for index, why in apart.items():
        by_reason.setdefault(why, []).append(index)
    steps = len(reference.clients[0].steps)
    return tuple(
        f"{_which(indices, steps)} computed what one device would: {why}" for why, indices in by_reason.items()
    )


def none_judged(apart: Mapping[int, str], reference: RunTrace) -> str | None:
    """Why nothing that a step computes can be judged; None if something can."""
    if not apart or len(apart) < len(reference.clients[0].steps):
        return None
    return f"no step can be judged by one replica: {next(iter(apart.values()))}"


def _which(indices: list[int], steps: int) -> str:
    if len(indices) == steps:
        return "it cannot be known whether any step has"
    if len(indices) == 1:
        return f"it cannot be known whether step {indices[0]} has"
    shown = ", ".join(map(str, indices[:_SHOWN])) + (", ..." if len(indices) > _SHOWN else "")
    return f"it cannot be known whether steps {shown} have"
