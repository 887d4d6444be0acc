"""A step of Adam turns where a gradient is all rounding, in right runs and in reruns of the reference alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.counters import Counters
from harness.evidence.trace import ClientTrace, Header, RunTrace, SeenVariable, Start
from harness.judging.laws import judge_all
from harness.judging.laws.protocol import Case, Judgement
from harness.judging.tolerance import DerivedTolerance
from tests.harness._traces import step, variable

_RATE, _EPSILON = 1e-3, 1e-7
_SHAPE = (256, 256)
_ROUNDING = 1e-3
_TRUE = np.random.default_rng(0).normal(size=_SHAPE)
_START = np.ones(_SHAPE, np.float32)


def _drawn(seed: int) -> Any:
    return _ROUNDING * np.random.default_rng(seed).normal(size=_SHAPE)


def _run(gradient: Any, coarsest: str | None = None, extra: Any = 0.0) -> RunTrace:
    """Adam's first step from ones."""
    after = _START - _RATE * gradient / (np.abs(gradient) + _EPSILON) + extra
    header = Header("local:0", 0, "default", 1, 1, 1, 0, follows=True)
    done = step(1, variables={"w": after.astype(np.float32)})
    begun = Start(0.0, (SeenVariable("w", "plain", variable("w", _START).copies),))
    return RunTrace((ClientTrace(header, (done,), start=begun, counters=Counters(coarsest=coarsest)),))


def _judged(run: RunTrace, reruns: int = 5) -> Judgement:
    truth = _run(_TRUE)
    noisy = [_run(_TRUE + _drawn(seed), "float32") for seed in range(101, 101 + reruns)]
    case = Case(run=run, reference=truth, tolerance=DerivedTolerance(truth, noisy), follows=True)
    return next(law for law in judge_all(case) if law.law == "variables_match_reference")


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_sign_that_rounding_turns_accuses_nobody(seed: int) -> None:
    """The same run is accused where reruns are too few to be held against each other."""
    run = _run(_TRUE + _drawn(seed))
    found = _judged(run)
    assert found.status == "held", found.findings
    assert found.worst_ratio is not None
    assert found.worst_ratio <= 1
    assert _judged(run, reruns=4).status == "broken"


def test_more_signs_than_rounding_turns_are_a_finding() -> None:
    """A gradient that is off by eight times as much: elements are told, and not only what becomes of the whole."""
    found = _judged(_run(_TRUE + 8 * _drawn(1)))
    assert found.status == "broken"
    assert found.findings[0].index is not None


@pytest.mark.parametrize(("extra", "status"), [(0.0, "held"), (6e-3, "broken")])
def test_an_element_further_off_than_any_step_is_a_finding(extra: float, status: str) -> None:
    """Whatever else has turned."""
    at = np.zeros(_SHAPE)
    at[3, 5] = extra
    assert _judged(_run(_TRUE + _drawn(1), extra=at)).status == status


def test_where_no_rerun_turns_a_sign_one_that_turns_is_a_finding() -> None:
    """A gradient that is large everywhere, but for one element of the run that has the other sign."""
    clear = np.where(_TRUE < 0, _TRUE - 1, _TRUE + 1)
    truth = _run(clear)
    noisy = [_run(clear + _drawn(seed), "float32") for seed in range(101, 106)]
    wrong = clear + _drawn(1)
    wrong[3, 5] *= -1
    for gradient, status in ((wrong, "broken"), (clear + _drawn(1), "held")):
        case = Case(run=_run(gradient), reference=truth, tolerance=DerivedTolerance(truth, noisy), follows=True)
        assert {law.law: law.status for law in judge_all(case)}["variables_match_reference"] == status


@pytest.mark.parametrize(("factor", "status"), [(1.0, "held"), (1.01, "broken")])
def test_a_factor_that_no_rerun_has_is_a_finding(factor: float, status: str) -> None:
    """Of a tensor as a whole, in 16 bits, where no element shows it."""
    eps = 2.0**-7

    def run(gradient: Any, coarsest: str | None = None) -> RunTrace:
        header = Header("local:0", 0, "default", 1, 1, 1, 0, follows=True)
        done = step(1, variables={"w": (_START - 0.1 * gradient).astype(np.float32)})
        begun = Start(0.0, (SeenVariable("w", "plain", variable("w", _START).copies),))
        return RunTrace((ClientTrace(header, (done,), start=begun, counters=Counters(coarsest=coarsest)),))

    def rounded(seed: int, roundings: float) -> Any:
        return _TRUE * (1 + roundings * eps * np.random.default_rng(seed).choice([-1.0, 1.0], _SHAPE))

    truth = run(_TRUE)
    noisy = [run(rounded(seed, 4.0), "bfloat16") for seed in range(101, 106)]
    case = Case(
        run=run(factor * rounded(7, 0.3)), reference=truth, tolerance=DerivedTolerance(truth, noisy), follows=True
    )
    (found,) = [law for law in judge_all(case) if law.law == "variables_match_reference"]
    assert found.status == status
    assert all(finding.index is None for finding in found.findings)
