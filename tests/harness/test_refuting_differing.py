"""By how much a batch has to differ: by element, and as a whole, beyond what noise makes of the same step."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array
from harness.recording.tracing import BatchOutcome
from harness.refuting.differences import differences_of_batch, is_the_same
from harness.running.step_graphs import StepGraphs
from tests.harness.test_proving import _step

_ELEMENTS = 2000


def _graphs() -> StepGraphs:
    step = _step(2, divide=2)
    trained = tuple(msgspec.structs.replace(each, trainable=True) for each in step.arguments)
    return StepGraphs((msgspec.structs.replace(step, arguments=trained),), _step(1, divide=4))


def _outcome(change: Any) -> BatchOutcome:
    return BatchOutcome({"w": (Array.of(np.ones(_ELEMENTS, np.float32)),)}, {"w": (Array.of(np.float32(1 + change)),)})


def _coarse(factor: float, seed: int) -> Any:
    """A change of which each element is rounded by some percent, and all are a multiple of what they should be."""
    change = np.random.default_rng(0).normal(size=_ELEMENTS)
    rounding = np.random.default_rng(abs(seed)).choice([-1.0, 1.0], _ELEMENTS) * np.sign(seed)
    return change * (factor + 0.03 * rounding)


@pytest.mark.parametrize(("factor", "differs"), [(1.0, False), (1.05, True), (0.9, True), (1.3, True)])
def test_over_many_elements_a_factor_is_seen_where_no_element_shows_it(factor: float, differs: bool) -> None:
    """A bound of 16 times 3 % hides the factor in each element; in the change as a whole rounding averages out."""
    noisy = [_outcome(_coarse(1.0, seed)) for seed in (101, -101, 102, 103, 104)]
    several = differences_of_batch(_graphs(), ([_outcome(_coarse(factor, 7))], _outcome(_coarse(1.0, 9))), noisy)
    assert bool(several) is differs
    for found in several:
        assert found.value == "the change of variable 'w', in multiples of one device's,"
        assert abs(found.found - factor) < 0.02
        assert found.bounds is not None
        assert not found.is_plain


def test_what_noise_turns_round_differs_by_nothing() -> None:
    """A step of one sign or the other, as of a gradient that is nothing but rounding, and beside it a right one."""
    signs = np.random.default_rng(1).choice([-1.0, 1.0], _ELEMENTS)
    noisy = [_outcome(0.01 * signs * turned) for turned in (1.0, -1.0)]
    run, alone = _outcome(-0.01 * signs), _outcome(0.01 * signs)
    assert not differences_of_batch(_graphs(), ([run], alone), noisy)
    assert differences_of_batch(_graphs(), ([run], alone), noisy[:1])


@pytest.mark.parametrize(
    ("own", "same"),
    [
        (1e-3, True),
        (-1e-3, False),  # the other way
        (0.0, False),
        (5e-7, False),  # rounding may do as much to a step of 1
    ],
)
def test_a_difference_is_the_same_if_it_is_more_than_rounding_and_as_large_where_it_is_large(
    own: float, same: bool
) -> None:
    """Of the program's own batch beside what that changes; the other one may change next to nothing."""
    way = np.random.default_rng(2).normal(size=_ELEMENTS)
    zeros = [_outcome(2e-3 * way)], _outcome(1e-3 * way)
    whole = np.random.default_rng(3).normal(size=_ELEMENTS)
    assert is_the_same(_graphs(), "w", zeros, ([_outcome(whole + own * way)], _outcome(whole))) is same
