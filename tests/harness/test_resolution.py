"""What a verdict says of how small an error it would have found, and what it therefore does not judge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import Final, RunTrace
from harness.judging.laws import judge_all
from harness.judging.laws.protocol import Case, Judgement
from harness.judging.resolution import Element, Resolution, Resolving, described, joined
from harness.judging.tolerance import DerivedTolerance, ExactTolerance
from harness.judging.verdict import Verdict
from tests._present import present
from tests.harness._traces import client, step, values

RANDOM = np.random.default_rng(5)
EPS = 2.0**-23


def _near(array: Any, roundings: float) -> Any:
    """The same array but for so many roundings of each element, up or down."""
    array = np.asarray(array, np.float32)
    return (array * (1 + roundings * EPS * RANDOM.choice([-1.0, 1.0], array.shape))).astype(np.float32)


def _judged(run: RunTrace, truth: RunTrace, *noisy: RunTrace) -> dict[str, Judgement]:
    case = Case(run=run, reference=truth, tolerance=DerivedTolerance(truth, noisy) if noisy else ExactTolerance())
    return {law.law: law for law in judge_all(case)}


def _predicting(prices: Any, shares: Any) -> RunTrace:
    both = np.stack([prices, shares], axis=1).astype(np.float32)
    return RunTrace((client(step(1, loss=np.float32(1)), final=Final(1.0, predictions=values({"y": both}))),))


def test_a_wrong_probability_beside_prices_is_found() -> None:
    """The column of prices near 1e5 does not lend the probabilities its bound."""
    prices, shares = RANDOM.uniform(5e4, 2e5, 64), RANDOM.uniform(0.1, 0.9, 64)
    truth = _predicting(prices, shares)
    noisy = [_predicting(_near(prices, 8), _near(shares, 8)) for _ in range(2)]
    right = _judged(_predicting(_near(prices, 2), _near(shares, 2)), truth, *noisy)["predictions_match_reference"]
    assert right.status == "held"
    assert present(present(right.resolution).loosest).error < 1e-3
    wrong = shares.copy()
    wrong[7] *= 1.001
    found = _judged(_predicting(prices, wrong), truth, *noisy)["predictions_match_reference"]
    assert found.status == "broken"
    assert found.findings[0].index == (7, 1)


def _moving(pressure: float, humidity: float) -> RunTrace:
    mean = np.array([pressure, humidity], np.float32)
    return RunTrace((client(step(1, variables={"moving_mean": [mean]})),))


def test_a_wrong_moving_mean_beside_a_large_one_is_found() -> None:
    """Humidity is not judged by air pressure in Pa."""
    noisy = [_moving(101325.0 * (1 + 4 * EPS), 0.525 * (1 - 4 * EPS))]
    assert (
        _judged(_moving(101325.0, 0.525), _moving(101325.0, 0.525), *noisy)["variables_match_reference"].findings == ()
    )
    found = _judged(_moving(101325.0, 0.5251), _moving(101325.0, 0.525), *noisy)["variables_match_reference"]
    assert found.findings[0].index == (1,)


def _falling(last: float, roundings: float = 0.0) -> RunTrace:
    losses = [6.7e4 * 0.3**k for k in range(12)]
    losses[-1] *= last
    return RunTrace((client(*[step(k, loss=_near(loss, roundings)) for k, loss in enumerate(losses, start=1)]),))


def test_a_step_is_not_judged_by_an_earlier_one() -> None:
    """The loss falls by six decades, and the last report is a thousandth too large."""
    noisy = [_falling(1.0, 10) for _ in range(2)]
    assert _judged(_falling(1.0, 2), _falling(1.0), *noisy)["loss_matches_reference"].status == "held"
    (finding,) = _judged(_falling(1.001), _falling(1.0), *noisy)["loss_matches_reference"].findings
    assert finding.step == 12


def _losses(*losses: float) -> RunTrace:
    return RunTrace((client(*[step(k, loss=np.float32(loss)) for k, loss in enumerate(losses, start=1)]),))


@pytest.mark.parametrize(("chaotic", "status"), [(1, "held"), (2, "not_judged")])
def test_what_is_mostly_not_judged_does_not_hold(chaotic: int, status: str) -> None:
    """Where the bound is more than a hundredth of more than half of the losses, the law has shown too little."""
    truth = [1.0, 1.0, 1.0]
    noisy = [1.0] * (3 - chaotic) + [1.1] * chaotic
    law = _judged(_losses(*truth), _losses(*truth), _losses(*noisy))["loss_matches_reference"]
    assert law.status == status
    assert law.resolution is not None
    assert (law.resolution.elements, law.resolution.unjudged) == (3, chaotic)
    verdict = Verdict("p", "s", (law,), tolerance="derived")
    assert verdict.outcome == ("consistent" if status == "held" else "abstained")
    if status == "not_judged":
        assert "the bound of 2 of 3 elements is more than 1% of their size" in law.reason


def test_an_error_beyond_a_useless_bound_is_a_finding_all_the_same() -> None:
    """What is not judged has not passed."""
    law = _judged(_losses(1.0, 90.0), _losses(1.0, 1.0), _losses(1.0, 1.5))["loss_matches_reference"]
    assert law.status == "broken"


def test_tightest_and_loosest_are_named() -> None:
    """In words, and as JSON from which they come back."""
    found = Resolving()
    found.add(1, "w", np.array([1e-6, 2e-5]), np.array([1.0, 1.0]), np.array([True, True]))
    found.add(2, "b", np.array([0.5, 3e-6, 9.0]), np.array([1.0, 1.0, 1.0]), np.array([True, True, False]))
    assert found.result == Resolution(4, 1, Element(1e-6, 1, "w", (0,)), Element(2e-5, 1, "w", (1,)))
    assert str(found.result) == "1e-06 to 2e-05 ('w'[1] at step 1); 25 % not judged"
    verdict = Verdict("p", "s", (Judgement("variables_match_reference", "held", resolution=found.result),))
    assert verdict.to_json()["resolution"] == {
        "variables": {
            "elements": 4,
            "not_judged": 1,
            "tightest": {"error": 1e-6, "step": 1, "name": "w", "index": [0]},
            "loosest": {"error": 2e-5, "step": 1, "name": "w", "index": [1]},
        }
    }
    assert "would have found errors of: variables 1e-06 to 2e-05" in str(verdict)


def test_exact_comparison_finds_one_bit() -> None:
    """The exact tier, and a value that no rerun moves and that is zero."""
    law = _judged(_losses(1.0), _losses(1.0))["loss_matches_reference"]
    assert described({"loss": present(law.resolution)}) == "one bit"


def test_a_zero_has_the_size_of_its_group() -> None:
    """A prediction that is 0 has no size of its own; with nothing but zeros around it, it is not judged."""
    truth = _predicting(np.r_[0.0, np.ones(7)], np.zeros(8))
    noisy = _predicting(np.r_[1e-7, np.ones(7)], np.r_[1e-7, np.zeros(7)])
    resolution = present(_judged(truth, truth, noisy)["predictions_match_reference"].resolution)
    assert (resolution.elements, resolution.unjudged) == (16, 8)


def test_nearly_all_is_not_all() -> None:
    """Nor is nearly nothing nothing."""
    assert str(Resolution(1000, 998)) == "99.8 % not judged"
    assert str(Resolution(100_000, 99_999)) == "99.9 % not judged"
    assert str(Resolution(100_000, 1)) == "0.1 % not judged"
    assert str(Resolution(10, 10)) == "all not judged"


def test_parts_are_put_together() -> None:
    """Of an interrupted run the resolution is that of all its parts."""
    one = Resolution(2, 1, Element(1e-6, 1, "w"), Element(1e-3, 1, "w"))
    other = Resolution(1, 1, None, None)
    assert joined([one, other]) == Resolution(3, 2, one.tightest, one.loosest)
    assert math.isclose(joined([one, other]).share_unjudged, 2 / 3)
