"""Tensors as wholes: a factor and a rest are seen where rounding hides each element, and what is rounding is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.counters import Counters
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, SeenVariable, Start, Value
from harness.judging.laws import judge_all
from harness.judging.laws.protocol import Case, Judgement
from harness.judging.tolerance import DerivedTolerance
from harness.judging.tolerance.derived import follows_gradient
from harness.judging.tolerance.whole_tensor import whole
from harness.judging.verdict import Verdict
from tests._present import present
from tests.harness._traces import client, step, variable

BFLOAT16 = 2.0**-7
_NOISY = (101, -101, 102, 103, 104)
_SHAPE = (40, 25)


def _normal(seed: int, shape: tuple[int, ...] = _SHAPE) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def _signs(seed: int, shape: tuple[int, ...] = _SHAPE) -> Any:
    return np.sign(seed) * np.random.default_rng(abs(seed)).choice([-1.0, 1.0], shape)


def _draws(shape: tuple[int, ...] = _SHAPE, roundings: float = 4.0) -> list[Any]:
    return [roundings * BFLOAT16 * np.abs(_normal(0, shape)) * _signs(seed, shape) for seed in _NOISY]


@pytest.mark.parametrize(("factor", "found"), [(1.0, False), (1.01, True), (0.99, True), (0.5, True), (-1.0, True)])
def test_a_factor_is_found_among_a_thousand_elements(factor: float, found: bool) -> None:
    """Each may be off by 3 % of itself; all together by half a percent."""
    truth = _normal(0)
    observed = factor * truth * (1 + 0.5 * BFLOAT16 * _normal(7))
    judged = present(whole(observed, truth, _draws(), np.zeros(_SHAPE)))
    assert judged.factor == pytest.approx(factor, abs=2e-3)
    assert judged.factor_bound < 0.008
    assert (judged.factor_ratio > 1) is found


@pytest.mark.parametrize(("share", "found"), [(0.0, False), (0.06, True)])
def test_what_no_factor_explains_is_a_rest(share: float, found: bool) -> None:
    """A term of 6 % of the size that points elsewhere leaves the factor as it is."""
    truth = _normal(0)
    observed = truth * (1 + 0.5 * BFLOAT16 * _normal(7)) + share * _normal(8)
    judged = present(whole(observed, truth, _draws(), np.zeros(_SHAPE)))
    assert (judged.rest_ratio > 1) is found


def test_what_all_elements_have_in_common_averages_out_over_none() -> None:
    """One scale that is rounded moves all alike, in the reruns as in the run."""
    truth = _normal(0)
    draws = [BFLOAT16 * sign * truth + each for sign, each in zip((1, -1, -1, 1, 1), _draws(), strict=True)]
    judged = present(whole(truth * (1 + BFLOAT16), truth, draws, np.zeros(_SHAPE)))
    assert judged.factor_ratio < 1
    alone = present(whole(truth * (1 + BFLOAT16), truth, _draws(), np.zeros(_SHAPE)))
    assert alone.factor_ratio > 1


def test_few_ways_of_moving_are_few_draws() -> None:
    """What moves a thousand elements by one number is one number, which a few draws say little of."""
    truth, way = _normal(0), _normal(3)
    drawn = (0.5, -0.5, 1.0, -0.8, 0.3)
    along_one = [0.01 * each * way for each in drawn]
    judged = present(whole(truth + 0.02 * way, truth, along_one, np.zeros(_SHAPE)))
    assert judged.rest_ratio < 1
    by_themselves = [0.01 * _normal(20 + k) for k, _ in enumerate(drawn)]
    other = present(whole(truth + 0.02 * way, truth, by_themselves, np.zeros(_SHAPE)))
    assert other.rest_ratio > 1


def test_few_elements_are_known_by_few_draws() -> None:
    """One number by four draws to 30 times their noise, eight to less."""
    one, eight = (
        whole(truth, truth, _draws(truth.shape), np.zeros(truth.shape))
        for truth in (_normal(0, (1,)), _normal(0, (8,)))
    )
    assert one is not None
    assert eight is not None
    assert one.factor_bound > 0.5
    assert 0.02 < eight.factor_bound < 0.2


def test_of_nothing_there_is_no_multiple() -> None:
    """A tensor that is zero in the reference is left to its elements, and so is what is not finite."""
    nothing = np.zeros(_SHAPE)
    assert whole(_normal(0), nothing, _draws(), nothing) is None
    assert whole(np.full(_SHAPE, np.inf), _normal(0), _draws(), nothing) is None


def _run(*held: Any, start: Any = None, dtype: Any = np.float32, coarsest: str | None = None) -> RunTrace:
    """A run that follows, or is followed; one variable. `coarsest` is of a rerun with noise."""
    header = Header("local:0", 0, "default", 1, 1, 1, 0, follows=True)
    steps = tuple(step(k, variables={"w": variable("w", np.asarray(w, dtype))}) for k, w in enumerate(held, start=1))
    begun = None if start is None else Start(0.0, (SeenVariable("w", "plain", variable("w", start).copies),))
    return RunTrace((ClientTrace(header, steps, start=begun, counters=Counters(coarsest=coarsest)),))


def _judged(run: RunTrace, truth: RunTrace, noisy: list[RunTrace]) -> dict[str, Judgement]:
    case = Case(run=run, reference=truth, tolerance=DerivedTolerance(truth, noisy), follows=True)
    return {law.law: law for law in judge_all(case)}


def _trained(factor: float, rate: float, shape: tuple[int, ...] = (32, 32)) -> Judgement:
    """Two steps from ones by a gradient that bfloat16 rounds, the second of which is judged from the first's."""
    first = np.ones(shape, np.float32)
    gradients = [_normal(k, shape) for k in (1, 2)]

    def after(factor: float, rounded: list[Any]) -> list[Any]:
        held = [first - rate * factor * (gradients[0] + rounded[0])]
        # What follows begins with what the run has left.
        before = first - rate * shown * (gradients[0] + rounding[0])
        return [*held, before - rate * factor * (gradients[1] + rounded[1])]

    shown, rounding = factor, [0.3 * BFLOAT16 * _normal(k, shape) for k in (5, 6)]
    zero = [np.zeros(shape)] * 2
    noisy = []
    for seed in _NOISY:
        noise = [4 * BFLOAT16 * np.abs(each) * _signs(seed + k, shape) for k, each in enumerate(gradients)]
        noisy.append(_run(*after(1.0, noise), start=first))
    judged = _judged(_run(*after(factor, rounding), start=first), _run(*after(1.0, zero), start=first), noisy)
    return judged["variables_match_reference"]


def test_a_run_that_has_overflowed_is_no_whole() -> None:
    """What it adds to infinity is no number; its elements are found by themselves."""
    one, lost = np.ones(_SHAPE, np.float32), np.full(_SHAPE, np.inf, np.float32)
    found = _judged(_run(lost, lost, start=one), _run(one, one, start=one), [_run(one, one, start=one)])
    assert found["variables_match_reference"].status == "broken"
    assert not any("as a whole" in finding.text for finding in found["variables_match_reference"].findings)


def test_the_update_of_a_variable_is_judged_as_a_whole() -> None:
    """A hundredth more than one device adds is a finding, and no element shows it."""
    assert _trained(1.0, 0.1).status == "held"
    wrong = _trained(1.01, 0.1)
    assert wrong.status == "broken"
    finding = wrong.findings[0]
    assert finding.step == 1
    assert "as a whole: what the step adds to it is 1.01" in finding.text
    assert finding.expected == 1.0
    assert wrong.resolution is not None
    assert present(present(wrong.resolution.wholes).factor).error < 0.01
    assert "as wholes a factor off by 0.004" in str(wrong.resolution)


def test_a_variable_that_moves_by_less_than_its_roundings_is_not_judged() -> None:
    """Then nothing is consistent, whatever else held, and the verdict says what would settle it."""
    small = _trained(1.0, 3e-8)
    assert small.status == "not_judged"
    assert small.unseen == ("w",)
    other = Judgement("loss_matches_reference", "held", suffices=True)
    verdict = Verdict("p", "mirrored-2", (other, small))
    assert verdict.outcome == "abstained"
    assert "'w'" in str(verdict)
    assert "float32" in str(verdict)
    assert Verdict("p", "mirrored-2", (other, _trained(1.0, 0.1))).outcome == "consistent"


@pytest.mark.parametrize(("loud", "status"), [(False, "broken"), (True, "not_judged")])
def test_a_suspicion_is_answered_more_finely_than_silence(loud: bool, status: str) -> None:
    """Off by a fifth beyond the bounds of two reruns, and within those of a third that is far louder: not judged."""
    start, truth = np.zeros(_SHAPE, np.float32), _normal(0)
    draws = [0.1 * truth * _signs(seed) for seed in _NOISY]
    draws[2] *= 4 if loud else 1
    noisy = [_run(truth + draw, start=start, coarsest="bfloat16") for draw in draws]
    found = _judged(_run(truth * (1 + 0.2 * _signs(7)), start=start), _run(truth, start=start), noisy)
    assert found["variables_match_reference"].status == status


def test_what_is_rounding_and_nothing_else_is_no_reason_to_abstain() -> None:
    """A bias before a normalization has the gradient zero, and moves by what rounding makes of that.

    Where nothing else was compared, nothing was judged.
    """
    truth, shape = _run(1e-3 * _signs(1), start=np.zeros(_SHAPE, np.float32)), _SHAPE
    noisy = [_run(1e-3 * _signs(seed, shape), start=np.zeros(shape, np.float32)) for seed in _NOISY]
    law = _judged(truth, truth, noisy)["variables_match_reference"]
    assert law.unseen == ()
    assert Verdict("p", "mirrored-2", (Judgement("loss_matches_reference", "held", suffices=True), law)).consistent
    assert Verdict("p", "mirrored-2", (law,)).outcome == "abstained"


@pytest.mark.parametrize(
    ("gradients", "follows"),
    [
        ([[1.0, -1.0], [-1.0, 1.0]], True),
        ([[1.0, -1.0], [1.0, -1.0]], False),
        ([[1.0, -1.0], [1.0, 1.0]], True),
        ([[1.0, 0.0], [1.0, 1e-8]], True),  # nothing but rounding
        ([[1.0, -1.0], [1.0, float("nan")]], True),
        ([None, None], True),
        ([[1.0, -1.0], [1.0, -1.0, 1.0]], True),
    ],
)
def test_a_change_that_its_gradient_does_not_have_is_no_rounding(gradients: list[Any], follows: bool) -> None:
    """A step of Adam turns where its gradient does; where nothing is known of that, it may be."""

    def run(gradient: Any) -> RunTrace:
        found = () if gradient is None else (Value("w", (Array.of(np.array(gradient, np.float32)),), per_replica=True),)
        return RunTrace((client(step(1, seen=Seen(1, 1.0, gradients=found))),))

    reference, rerun = map(run, gradients)
    assert follows_gradient(reference, [rerun], "w", 1, [np.array([0.0, 2.0])]) is follows


@pytest.mark.parametrize(
    ("changes", "follows"),
    [
        ([0.3, -0.1, 0.2, -0.2, 0.4], True),  # as a momentum makes of it that is about to turn
        ([0.3, 0.3, -0.3, 0.3, -0.3], False),  # as a clock does
        ([0.3, -0.1, 0.2, -0.2], False),  # of as few nobody knows
    ],
)
def test_a_change_that_is_a_multiple_of_its_gradients_is_rounding(changes: list[float], follows: bool) -> None:
    """However much larger it is, beside what it changes, than that of the gradient."""

    def run(gradient: float) -> RunTrace:
        found = (Value("w", (Array.of(np.array([gradient])),), per_replica=True),)
        return RunTrace((client(step(1, seen=Seen(1, 1.0, gradients=found))),))

    reruns = [run(1.0 + shift) for shift in (0.03, -0.01, 0.02, -0.02, 0.04)[: len(changes)]]
    assert follows_gradient(run(1.0), reruns, "w", 1, [np.array([each]) for each in changes]) is follows
