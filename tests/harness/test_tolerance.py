"""The tolerance: exact is zero; derived follows the spread of the reruns and never the number of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Final, Header, RunTrace, SeenVariable, Start
from harness.judging.explain._replica_values import _over
from harness.judging.tolerance import FLOOR, REPORT, STATE, DerivedTolerance, ExactTolerance, K, eps
from tests.harness._traces import client, derived_case, step, variable


def _run(*losses: Any, dtype: str = "float32", final: Final | None = None) -> RunTrace:
    steps = [step(index, loss=np.asarray(loss, dtype)) for index, loss in enumerate(losses, start=1)]
    return RunTrace((client(*steps, final=final),))


def test_exact_tier_allows_nothing() -> None:
    """The exact tier has bound zero everywhere."""
    assert ExactTolerance().name == "exact"
    assert ExactTolerance().bound("variables", "w", None) == 0
    assert "0" in ExactTolerance().describe()


def test_bound_is_the_documented_formula() -> None:
    """A bound is K times the spread of that step plus FLOOR roundings of the value."""
    reference = _run(1.0, 2.0, 4.0)
    reruns = [_run(1.0, 2.25, 4.0), _run(1.0, 1.5, 4.125)]
    tolerance = DerivedTolerance(reference, reruns)
    unit = 2.0**-23
    assert tolerance.bound("loss", "loss", 2) == K * 0.5 + FLOOR * unit * 2
    assert tolerance.bound("loss", "loss", 3) == K * 0.125 + FLOOR * unit * 4  # the spread of step 2 is forgotten
    assert tolerance.name == "derived"
    assert "2 perturbed reruns" in tolerance.describe()


@pytest.mark.parametrize(("follows", "floor"), [(False, FLOOR), (True, STATE)])
def test_a_variable_of_one_step_has_fewer_roundings(follows: bool, floor: float) -> None:
    """What follows a run computes one step from the run's own variables; a loss has as many as ever."""
    header = Header("local:0", 0, "default", 1, 1, 1, 0, follows=follows)
    two = np.float32(2.0)
    run = RunTrace((ClientTrace(header, (step(1, loss=two, variables={"w": variable("w", two)}),)),))
    tolerance = DerivedTolerance(run, [])
    bounds = [tolerance.bound("variables", "w", 1), tolerance.bound("loss", "loss", 1)]
    assert [float(bound.max()) for bound in bounds] == [floor * 2.0**-22, FLOOR * 2.0**-22]


@pytest.mark.parametrize(
    ("follows", "of_run", "sizes"),
    [
        (False, (1, 4), (2.0**-11, 2.0, 2.0**-10, 8.0)),
        (True, (), (4.0, 2.0, 2.0, 8.0)),
        (True, (3,), (4.0, 2.0, 4.0, 8.0)),
    ],
)
def test_an_update_that_cancels_a_variable_is_as_large_as_that_was(
    follows: bool, of_run: tuple[int, ...], sizes: tuple[float, ...]
) -> None:
    """What it rounds by is no less because little is left, of what a step is known to begin with; it may also grow."""

    def start(index: int) -> Start:
        return Start(0.0, (SeenVariable("w", "copies", (Array.of(np.float32(4.0)),)),), index)

    header = Header("local:0", 0, "default", 1, 1, 1, 0, follows=follows)
    held = [variable("w", np.float32(each)) for each in (2.0**-11, 2.0, 2.0**-10, 8.0)]
    steps = tuple(step(k, variables={"w": w}) for k, w in enumerate(held, start=1))
    reference = RunTrace((ClientTrace(header, steps, start=start(1)),))
    run = RunTrace((ClientTrace(header, steps, starts=tuple(map(start, of_run))),))
    tolerance, floor = DerivedTolerance(reference, [], run), STATE if follows else FLOOR
    bounds = [float(tolerance.bound("variables", "w", k).max()) for k in (1, 2, 3, 4)]
    assert bounds == [floor * each * 2.0**-23 for each in sizes]


def test_bound_does_not_grow_with_the_number_of_elements() -> None:
    """A thousand copies of an element have the bound of one."""
    small = DerivedTolerance(_run([1.0, 2.0]), [_run([1.0, 2.5])])
    large = DerivedTolerance(_run([1.0, 2.0] * 1000), [_run([1.0, 2.5] * 1000)])
    assert np.array_equal(np.tile(small.bound("loss", "loss", 1), 1000), large.bound("loss", "loss", 1))


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool"])
def test_integers_stay_exact(dtype: str) -> None:
    """Integers have bound zero even when a rerun moved them."""
    assert DerivedTolerance(_run(1, dtype=dtype), [_run(0, dtype=dtype)]).bound("loss", "loss", 1) == 0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_rerun_that_overflows_does_not_excuse_anything(bad: float) -> None:
    """Non-finite elements of reruns or reference are left out, so a bound is always finite."""
    assert DerivedTolerance(_run(1.0), [_run(bad)]).bound("loss", "loss", 1) == FLOOR * 2.0**-23
    assert DerivedTolerance(_run(bad), [_run(1.0)]).bound("loss", "loss", 1) == 0


def test_a_float32_loss_reported_as_python_float_keeps_its_rounding() -> None:
    """A float64 that is a float32 number at every step is allowed float32 roundings, any other is not."""
    rounded = float(np.float32(0.1))
    assert DerivedTolerance(_run(rounded, dtype="float64"), [_run(rounded, dtype="float64")]).bound(
        "loss", "loss", 1
    ) == (FLOOR * 2.0**-23 * rounded)
    for losses in ([0.1], [1.0, 0.1]):
        reference = _run(*losses, dtype="float64")
        assert DerivedTolerance(reference, [reference]).bound("loss", "loss", 1) == FLOOR * 2.0**-52 * losses[0]


def _reported(*losses: float, coarsest: str | None = None) -> RunTrace:
    """Losses computed in float32 and cast to bfloat16 for the report; `coarsest` is what a rerun has noted."""
    import ml_dtypes

    cast = [np.asarray(loss, np.float32).astype(ml_dtypes.bfloat16) for loss in losses]
    steps = [step(index, loss=loss) for index, loss in enumerate(cast, start=1)]
    return RunTrace((client(*steps, coarsest=coarsest),))


def test_a_report_that_was_cast_has_the_rounding_of_the_cast_only() -> None:
    """A float32 loss reported as bfloat16 is allowed a few half steps of bfloat16: 5 % is wrong, a step is not."""
    low, above = 1.0, 1.0 + 2.0**-7  # neighbours in bfloat16
    reference = _reported(low)
    tolerance = DerivedTolerance(reference, [_reported(above, coarsest="float32"), _reported(low, coarsest="float32")])
    bound = tolerance.bound("loss", "loss", 1)
    assert bound == FLOOR * 2.0**-23 + REPORT * 2.0**-7  # the rerun that rounding alone has moved adds nothing
    assert 2.0**-7 < bound < 0.02


def test_a_spread_beyond_the_cast_still_counts() -> None:
    """What the rounding of a report cannot explain is the response of the training, which K multiplies."""
    reference = _reported(1.0)
    tolerance = DerivedTolerance(reference, [_reported(1.0 + 4 * 2.0**-7, coarsest="float32")])
    assert tolerance.bound("loss", "loss", 1) == K * 3 * 2.0**-7 + FLOOR * 2.0**-23 + REPORT * 2.0**-7


@pytest.mark.parametrize("coarsest", ["bfloat16", None])
def test_a_program_that_computes_coarsely_keeps_its_roundings(coarsest: str | None) -> None:
    """Where layers compute in bfloat16 each operation rounds so; a rerun of an earlier version has not noted it."""
    tolerance = DerivedTolerance(_reported(1.0), [_reported(1.0, coarsest=coarsest)])
    assert tolerance.bound("loss", "loss", 1) == FLOOR * 2.0**-7


def test_the_end_is_a_moment_like_any_other() -> None:
    """A value recorded at the end is bounded with the spread that it has there."""
    case = derived_case()
    variables = [case.tolerance.bound("variables", "w", step) for step in range(1, 7)]
    assert np.all(case.tolerance.bound("variables", "w", None) >= 0.99 * variables[-1])
    assert np.all(variables[-1] > 0)


def test_what_the_reference_never_recorded_has_no_room() -> None:
    """Unknown names, observables and steps have bound zero; reruns of another shape or length add nothing."""
    tolerance = DerivedTolerance(_run([1.0, 1.0], 1.0), [_run([1.0, 1.0, 9.0])])
    assert tolerance.bound("loss", "other", 1) == 0
    assert tolerance.bound("loss", "loss", 7) == 0
    assert np.all(tolerance.bound("loss", "loss", 1) == FLOOR * 2.0**-23)
    assert np.all(tolerance.bound("loss", "loss", 2) == FLOOR * 2.0**-23)


def test_without_reruns_only_roundings_are_allowed_for() -> None:
    """So a run is accepted by a reference that follows it, before anything is known of what noise does."""
    tolerance = DerivedTolerance(_run(1.0), [])
    assert np.all(tolerance.bound("loss", "loss", 1) == FLOOR * 2.0**-23)
    assert "with no rerun" in tolerance.describe()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_eps_is_numpys(dtype: str) -> None:
    """The table of eps agrees with NumPy; integers have none."""
    assert eps(dtype) == np.finfo(dtype).eps
    assert eps("int64") == eps("bool") == 0
    assert eps("bfloat16") == 2.0**-7


def test_what_is_read_of_one_reference_is_not_taken_for_that_of_another() -> None:
    """Rules read a case with losses that were seen, after laws have read it with those that were logged."""
    tolerance = DerivedTolerance(_run(0.1, dtype="float64"), [])
    assert tolerance.bound("loss", "loss", 1) == FLOOR * 2.0**-52 * 0.1
    assert _over(tolerance, lambda _: _run(2.0)).bound("loss", "loss", 1) == FLOOR * 2.0**-22
