"""Which steps are wrong by themselves: synthetic runs, and references that began each step from the run's variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.parts import Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace, merge
from harness.judging.laws import Case, Finding, Judgement
from harness.judging.more_runs import is_open, is_plain
from harness.judging.tolerance import DerivedTolerance, ExactTolerance
from harness.judging.verdict import Verdict
from harness.judging.wrong_steps import StepsAlone, wrong_steps_of
from harness.verify import judge
from tests.harness._traces import client, step


def _logistic(
    *, wrong: tuple[int, ...] = (), follow: RunTrace | None = None, halves: int = 1, noise: int | None = None
) -> RunTrace:
    """A map that is chaotic, computed in float32 from sums over `halves` of a batch, wrong by 1e-4 at some steps.

    One that follows a run begins each step from what that has recorded of the step before.
    """
    random = np.random.default_rng(1)
    shares = random.uniform(0.5, 1.5, 16).astype(np.float32)
    shares /= shares.sum()
    signs = np.random.default_rng(abs(noise or 1))
    w = np.array([0.3, 0.4], np.float32)
    steps = []
    for index in range(1, 61):
        w = _noisy(w, noise, signs)
        parts = [(part[:, None] * (np.float32(3.9) * w * (1 - w))).sum(axis=0) for part in np.split(shares, halves)]
        w = np.sum(parts, axis=0, dtype=np.float32)
        w = (w * np.float32(1.0001)).astype(np.float32) if index in wrong else w
        w = _noisy(w, noise, signs)
        steps.append(step(index, loss=w.sum(), variables={"w": w}))
        if follow is not None:
            w = (follow.clients[0].steps[index - 1].variables or ())[0].value.numpy()
    made = client(*steps)
    header = msgspec.structs.replace(made.header, follows=follow is not None)
    return merge([msgspec.structs.replace(made, header=header)])


def _noisy(w: Any, seed: int | None, signs: np.random.Generator) -> Any:
    if seed is None:
        return w
    eps = np.float32(2.0**-23) * np.sign(seed)
    return (w * (1 + eps * signs.choice([-1.0, 1.0], w.shape))).astype(np.float32)


def _reference(follow: RunTrace | None) -> Reference:
    noisy = tuple(_logistic(follow=follow, noise=seed) for seed in (101, -101, 102, -102))
    return Reference(_logistic(follow=follow), noisy)


def _judged(run: RunTrace, reference: Reference, *, forced: bool = False) -> Any:
    return judge(Parts(run), reference, program="logistic", tasks={}, seconds=0.0, forced=forced)


def test_a_chaotic_right_run_is_right_at_every_step() -> None:
    """Another order of summation stays within bounds that are as tight at the last step as at the first."""
    run = _logistic(halves=2)
    apart = _logistic().clients[0].steps[-1].variables, run.clients[0].steps[-1].variables
    (truth,), (ours,) = (found or () for found in apart)
    assert abs(truth.value.numpy() - ours.value.numpy()).max() > 1e-2, "this trajectory is meant to be chaotic"
    reference = _reference(run)
    verdict = _judged(run, reference, forced=True)
    assert verdict, str(verdict)
    assert "forced: each step is judged from the run's own variables, as always" in str(verdict)
    assert (verdict.to_json()["forced"], "wrong_steps" in verdict.to_json()) == (True, False)
    bound = DerivedTolerance(reference.trace, reference.perturbed).bound
    assert np.all(bound("variables", "w", 60) < 1e-4), "a bound that is of no use would accept everything"


def test_a_mistake_in_a_chaotic_run_is_seen_where_it_was_made_and_only_forced() -> None:
    """Judged as a whole the bound has grown beyond the numbers; judged alone, exactly the wrong steps are wrong."""
    run = _logistic(halves=2, wrong=(40, 57))
    whole = _judged(run, _reference(None), forced=False)
    assert whole.outcome != "inconsistent", str(whole)
    assert "forced" not in whole.to_json()
    verdict = _judged(run, _reference(run), forced=True)
    assert verdict.to_json()["wrong_steps"] == [40, 57]
    assert verdict.to_json()["right_steps"] == 58
    assert "steps 40 and 57 are wrong by themselves, 58 steps agree" in str(verdict)
    assert verdict.first_divergence is not None
    assert verdict.first_divergence.step == 40


def _trace(numbers: list[float]) -> RunTrace:
    every = enumerate(numbers, start=1)
    return merge([client(*(step(k, variables={"w": np.array([number], np.float32)}) for k, number in every))])


def _traces(**changes: Any) -> tuple[RunTrace, RunTrace]:
    """A run and its reference, each step a loss and a variable; `changes` of the run by number of the step, `at_N`."""

    def steps(changed: dict[str, Any]) -> RunTrace:
        plain = [
            {"loss": float(k), "variables": {"w": np.array([k], np.float32)}, "examples": ((k,),)} for k in range(1, 11)
        ]
        return merge([client(*(step(k, **one) for k, one in enumerate(_changed(plain, changed), start=1)))])

    return steps(changes), steps({})


def _changed(plain: list[dict[str, Any]], changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**one, **changed.get(f"at_{k}", {})} for k, one in enumerate(plain, start=1)]


@pytest.mark.parametrize(
    "change",
    [
        {"loss": 0.5},
        {"loss": float("nan")},
        {"variables": {"w": np.array([0.5], np.float32)}},
        {"variables": {"w": np.array([0.5, 1.0], np.float32)}},
        {"variables": {"v": np.array([4], np.float32)}},
        {"examples": ((4, 4),)},
    ],
)
def test_whatever_the_laws_compare_makes_a_step_wrong(change: dict[str, Any]) -> None:
    """A value, a shape, a value that is missing, examples; and no other step for it."""
    run, reference = _traces(at_4=change)
    assert wrong_steps_of(Case(run, reference, ExactTolerance())) == StepsAlone((4,), 9, 10)


def test_what_is_not_finite_in_the_reference_is_neither_right_nor_wrong() -> None:
    """A reference that goes on from NaN says nothing more of the run."""
    nothing = {"loss": float("nan"), "variables": {"w": np.array([np.nan], np.float32)}, "examples": None}
    later = {f"at_{k}": nothing for k in range(5, 11)}
    run, _ = _traces(at_4=nothing, **later)
    reference, _ = _traces(**later)
    assert wrong_steps_of(Case(run, reference, ExactTolerance())) == StepsAlone((4,), 3, 4)


def test_a_step_does_not_agree_by_what_is_wrong_nowhere() -> None:
    """Of steps whose loss is not known nobody knows whether it is wrong as well: their examples do not tell."""
    unknown = {f"at_{k}": {"loss": None} for k in range(7, 11)}
    run, _ = _traces(at_3={"loss": 0.5}, **unknown)
    reference, _ = _traces(**unknown)
    assert wrong_steps_of(Case(run, reference, ExactTolerance())) == StepsAlone((3,), 5, 10)
    run, _ = _traces(at_3={"variables": {"w": np.array([0.5], np.float32)}}, **unknown)
    assert wrong_steps_of(Case(run, reference, ExactTolerance())) == StepsAlone((3,), 9, 10)


def test_a_run_with_fewer_steps_is_judged_at_those_it_took() -> None:
    """And one with more at those of the reference."""
    run, reference = _traces(at_3={"loss": 0.5})
    short = RunTrace((msgspec.structs.replace(run.clients[0], steps=run.clients[0].steps[:6]),))
    assert wrong_steps_of(Case(short, reference, ExactTolerance())) == StepsAlone((3,), 5, 6)
    shorter = RunTrace((msgspec.structs.replace(reference.clients[0], steps=reference.clients[0].steps[:2]),))
    assert wrong_steps_of(Case(run, shorter, ExactTolerance())) == StepsAlone((), 2, 2)


def test_epochs_are_judged_where_a_run_has_only_those() -> None:
    """By the number of the reference's last step in each."""

    def trace(ends_only: bool, wrong: int = 0) -> RunTrace:
        every = [step(k, loss=float(k + (k == wrong)), epoch=(k - 1) // 3, epoch_end=k % 3 == 0) for k in range(1, 10)]
        if not ends_only:
            return merge([client(*every)])
        ends = [replace_index(one, k) for k, one in enumerate(every[2::3], start=1)]
        return merge([client(*ends, per_epoch=True)])

    def replace_index(one: Any, index: int) -> Any:
        return msgspec.structs.replace(one, index=index)

    case = Case(trace(True, wrong=6), trace(False), ExactTolerance())
    assert wrong_steps_of(case) == StepsAlone((6,), 2, 9)
    assert wrong_steps_of(replace(case, run=trace(True))) == StepsAlone((), 3, 9)


@pytest.mark.parametrize(
    ("wrong", "right", "last", "text"),
    [
        ((3, 7), 8, 10, "steps 3 and 7 are wrong by themselves, 8 steps agree with the reference"),
        ((3,), 9, 10, "step 3 is wrong by itself, 9 steps agree with the reference"),
        ((10,), 9, 10, "step 10 is wrong by itself, 9 steps agree with the reference"),
        ((3, 4, 5, 8, 9), 5, 10, "steps 3 to 5, 8 and 9 are wrong by themselves, 5 steps agree with the reference"),
        ((9, 10), 8, 10, "each step from 9 on is wrong by itself, 8 steps agree with the reference"),
        ((2, 3), 1, 3, "each step from 2 on is wrong by itself, 1 step agrees with the reference"),
        ((1, 2, 3), 0, 3, "each step from 1 on is wrong by itself"),
        ((), 3, 3, "no step is wrong by itself, 3 steps agree with the reference"),
        ((), 0, 3, "no step is wrong by itself"),
    ],
)
def test_steps_are_said_in_words(wrong: tuple[int, ...], right: int, last: int, text: str) -> None:
    """Which are wrong, as ranges, and how many are right."""
    alone = StepsAlone(wrong, right, last)
    assert alone.text == text
    assert alone.hide_others == (wrong in [(3, 7), (3,), (3, 4, 5, 8, 9)])


def test_of_many_steps_the_first_are_listed() -> None:
    """The rest is counted."""
    assert StepsAlone(tuple(range(1, 40, 2)), 20, 40).text.startswith("steps 1, 3, 5, 7, 9, 11, 13, 15 and 12 more are")


def test_json_has_the_steps_where_each_was_judged_by_itself() -> None:
    """By a reference that followed the run."""
    run, reference = _traces(at_3={"loss": 0.5})
    (only,) = reference.clients
    for follows in (False, True):
        header = msgspec.structs.replace(only.header, follows=follows)
        truth = Reference(RunTrace((msgspec.structs.replace(only, header=header),)))
        assert ({"wrong_steps", "right_steps"} <= _judged(run, truth).to_json().keys()) == follows


@pytest.mark.parametrize(
    ("ratio", "bound", "plain"), [(2.0, 1e-6, False), (9_999.0, 1e-6, False), (10_001.0, 1e-6, True), (1.0, 0.0, False)]
)
def test_what_is_far_beyond_its_bound_is_plain(ratio: float, bound: float, plain: bool) -> None:
    """And nothing nearer, nor a number that no rerun has moved, whose bound is none."""
    finding = Finding(
        "loss_matches_reference", "x", observable="loss", observed=ratio * bound, expected=0.0, bound=bound
    )
    law = Judgement("loss_matches_reference", "broken", findings=(finding,), worst_ratio=ratio)
    verdict = Verdict("p", "s", (law,))
    assert is_open(verdict)
    assert is_plain(verdict) is plain


def test_what_differs_where_bits_are_compared_is_plain() -> None:
    """A law that knows no bound."""
    law = Judgement("replicas_agree", "broken", findings=(Finding("replicas_agree", "x"),))
    assert is_plain(Verdict("p", "s", (law,)))
    held = Verdict("p", "s", (Judgement("replicas_agree", "held"),))
    assert not is_open(held)
    assert not is_plain(held)
