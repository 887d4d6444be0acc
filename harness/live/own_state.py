"""What each replica keeps for itself, such as the sum of its own gradients: no single device has it.

So as many replicas make it again on the judge's machine, each from what its own had. They would repeat a mistake of the
program's own. That shows where each has what another one had: it leaves what that left, if the program treats replicas
alike. One that does not, as where each keeps a part of a whole, may still be right: then one device has what they have
together. Where a program does not say how that is to be made of the copies, one way that fits is enough.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec

from harness.evidence.own_state import WAYS, OwnState, Way
from harness.judging.laws.protocol import Finding
from harness.live.findings import OWN_STATE, StepFinding, found_by

_ROUNDING = 1e-3
"""By such a part a number may differ that is computed once more; what it is computed from matters more."""


_TOGETHER = "{} is together other than what one device has, which may be meant: it"


class ComparedSteps(Protocol):
    """Computes steps again, and yields their places with how variables differ."""

    def __call__(self, *, turned: bool = False, way: Way | None = None) -> Iterator[tuple[int, Finding]]:
        """By as many replicas, each of which may have what another one had, or by one device.

        Args:
            turned: whether each has that.
            way: what the copies are of what one device has, if one computes it.
        """


def judge_own_state(
    states: Mapping[int, Sequence[OwnState]],
    replicas: Sequence[str],
    compared: ComparedSteps,
    by_hand: Collection[int] = (),
) -> tuple[dict[int, list[StepFinding]], dict[int, str]]:
    """What is wrong of it, and of the rest what is other than what one device has, by the places of steps.

    The latter may be meant: of a number that each replica counts, one device has less than all of them together.

    Args:
        states: by their places.
        replicas: what they are called.
        compared: see there.
        by_hand: places of steps before the program has taken a gradient. They may give each replica its number.
    """
    every = [each for own in states.values() for each in own]
    if not every:
        return {}, {}
    whose = {each.of_replica(number): (each, name) for each in every for number, name in enumerate(replicas)}
    found: dict[int, list[StepFinding]] = {}
    for place, finding in compared():
        if finding.variable in whose:
            found.setdefault(place, []).append(_finding(finding, *whose[finding.variable]))
    turned = {
        (place, whose[finding.variable][0].of_all): whose[finding.variable][0]
        for place, finding in compared(turned=True)
        if finding.variable in whose and place not in found and place not in by_hand
    }
    plain = {
        (place, each.of_all): each
        for place, own in states.items()
        for each in own
        if len(each.ways) == 1 and place not in found and place not in by_hand
    }
    ways = [way for way in WAYS if any(way in each.ways for each in (*turned.values(), *plain.values()))]
    differing = {way: {(place, each.variable): each for place, each in compared(way=way)} for way in ways}
    for (place, name), each in turned.items():
        if all((place, name) in differing[way] for way in each.ways):
            found.setdefault(place, []).append(_finding(differing[each.ways[0]][place, name], each, None))
    apart: dict[int, str] = {}
    for key, each in plain.items():
        if key[0] not in found and key in differing[each.ways[0]]:
            numbers = found_by(differing[each.ways[0]][key]).numbers
            apart.setdefault(key[0], f"{_TOGETHER.format(each.name)}{numbers}")
    return found, apart


def are_alike(some: Sequence[Finding], others: Sequence[Finding]) -> bool:
    """Whether one device has computed the same, but for rounding, where a run differs from it."""

    def expected(findings: Sequence[Finding]) -> list[float]:
        return [math.nan if each.expected is None else each.expected for each in findings]

    if [(each.law, each.step, each.variable) for each in some] != [(o.law, o.step, o.variable) for o in others]:
        return False
    pairs = zip(expected(some), expected(others), strict=True)
    return all(math.isclose(one, other, rel_tol=_ROUNDING) or math.isnan(one) for one, other in pairs)


def _finding(finding: Finding, state: OwnState, replica: str | None) -> StepFinding:
    found = found_by(finding)
    return msgspec.structs.replace(found, question="state", law=OWN_STATE, variable=state.name, replica=replica)
