"""The line that gives a step a number that it is not given on one device, where that step is the first wrong one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import ArgumentSeen, ClientTrace, RunTrace
from harness.judging.culprit import Culprit, argument_culprit
from harness.judging.verdict import Verdict

if TYPE_CHECKING:
    import numpy as np

_TOLERANCE = 1e-4
"""As a share of the larger number: far more than rounding makes of a rate that a loss has set."""
_FOLLOWS = ("loss", "gradients", "variables", "metrics")


def given_otherwise(
    verdict: Verdict, run: RunTrace, reference: RunTrace, begun: RunTrace | None = None
) -> Culprit | None:
    """That line; None where no number differs, or one that has differed in a right step before.

    Args:
        verdict: of a run.
        run: what was judged, of a run in parts the last one.
        reference: of one device, with which a run in parts is aligned by its end.
        begun: of a run in parts the first one.
    """
    first, truth = verdict.first_divergence, reference.clients[0]
    if first is None or first.step is None or first.observable not in _FOLLOWS or not truth.seen:
        return None
    harmless = {
        name
        for client in (() if begun is None else begun.clients)
        for step, given, expected in _pairs(client, truth, 0)
        if step < first.step
        for name in _differing(given, expected)
    }
    for client in filter(lambda each: each.seen, run.clients):
        for step, given, expected in _pairs(client, truth, truth.seen[-1].index - client.seen[-1].index):
            other = _differing(given, expected)
            if step < first.step:
                harmless |= other.keys()
            wrong = next((each for name, each in other.items() if name not in harmless), None)
            if step == first.step and wrong is not None:
                who = f" on {client.header.task}" if len(run.clients) > 1 else ""
                return argument_culprit(wrong[0], _said(*wrong, who), step)
    return None


def _pairs(
    client: ClientTrace, truth: ClientTrace, later: int
) -> Iterator[tuple[int, tuple[ArgumentSeen, ...], tuple[ArgumentSeen, ...]]]:
    """The steps of which the arguments are known of both, by the reference's numbers, which are so much larger."""
    expected = {each.index: each.arguments for each in truth.seen if each.arguments}
    for each in client.seen:
        if each.arguments and each.index + later in expected:
            yield each.index + later, each.arguments, expected[each.index + later]


def _differing(
    given: tuple[ArgumentSeen, ...], expected: tuple[ArgumentSeen, ...]
) -> dict[str, tuple[ArgumentSeen, ArgumentSeen]]:
    """By name the arguments of equal shape whose numbers differ."""
    known = {each.name: each for each in expected}
    return {
        each.name: (each, known[each.name])
        for each in given
        if each.name in known and _at(each.value.numpy(), known[each.name].value.numpy()) is not None
    }


def _at(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """The first place at which two arrays of one shape differ."""
    import numpy as np

    if one.shape != other.shape:
        return None
    wide, truth = one.astype(np.float64), other.astype(np.float64)
    apart = ~(np.abs(wide - truth) <= _TOLERANCE * np.maximum(np.abs(wide), np.abs(truth)))
    apart &= ~(np.isnan(wide) & np.isnan(truth))
    return tuple(int(each) for each in np.argwhere(apart)[0]) if apart.any() else None


def _said(given: ArgumentSeen, expected: ArgumentSeen, who: str) -> str:
    found, truth = given.value.numpy(), expected.value.numpy()
    at = _at(found, truth) or ()
    where = f"[{', '.join(map(str, at))}]" if at else ""
    return f"{given.name}{where} is {found[at]:.6g} here{who}, and {truth[at]:.6g} on one device"
