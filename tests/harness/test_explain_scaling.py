"""The rules about a loss scaled by the number of replicas or workers."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, RunTrace, SeenVariable, Start
from harness.judging.explain import all_rules, explain
from harness.judging.laws import Case
from harness.judging.tolerance import ExactTolerance
from tests.harness._explaining import rule_of, text_of
from tests.harness._traces import Training, client, derived_case, exact_case, step

MAKERS = [exact_case, derived_case]


def test_rules_are_found_and_ordered() -> None:
    """Causes in the data come before factors in the loss, replicas before workers."""
    order = [rule.id for rule in all_rules()]
    named = ("examples", "loss")
    assert [rule for rule in order if rule.startswith(named)] == [
        "examples_duplicated",
        "examples_missing",
        "examples_at_other_steps",
        "loss_times_replicas",
        "loss_divided_by_replicas",
        "loss_times_workers",
        "loss_divided_by_workers",
    ]


@pytest.mark.parametrize("make", MAKERS)
def test_a_good_run_needs_no_explanation(make: Any) -> None:
    """No rule claims a run that is right."""
    assert explain(make()) is None


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (2, 2), (3, 1)], ids=str)
def test_a_loss_off_by_the_number_of_replicas_is_named(make: Any, shape: tuple[int, int]) -> None:
    """Times R and divided by R are told apart, for R that are powers of two and that are not."""
    shape_of = {"clients": shape[0], "local_replicas": shape[1]}
    count = shape[0] * shape[1]
    assert rule_of(make(**shape_of, loss_factor=float(count))) == "loss_times_replicas"
    assert rule_of(make(**shape_of, loss_factor=1 / count)) == "loss_divided_by_replicas"


@pytest.mark.parametrize("make", MAKERS)
def test_a_loss_off_by_the_number_of_workers_is_named(make: Any) -> None:
    """With two workers of two devices a factor of two is the workers'."""
    assert rule_of(make(loss_factor=2.0)) == "loss_times_workers"
    assert rule_of(make(loss_factor=0.5)) == "loss_divided_by_workers"


@pytest.mark.parametrize("make", MAKERS)
def test_scaled_gradients_are_followed_up_to_the_first_divergence(make: Any) -> None:
    """When training itself is scaled only the first loss is predictable, and the text says what is affected."""
    text = text_of(make(loss_factor=4.0, gradient_factor=4.0))
    assert "training itself is wrong" in text
    assert "only the report is wrong" in text_of(make(loss_factor=4.0))
    assert "wrong too, but not by this factor" in text_of(make(loss_factor=4.0, gradient_factor=3.0))


def test_the_text_has_evidence_and_cure() -> None:
    """An explanation quotes numbers and names the API to use."""
    text = text_of(exact_case(loss_factor=4.0))
    assert "times 4, the number of replicas: at step 1 it is 2.375 where 0.59375 is right" in text
    assert "4 of 4 steps" in text
    assert "tf.nn.compute_average_loss(per_example_loss, global_batch_size=...)" in text
    assert "ReduceOp.SUM" in text_of(exact_case(loss_factor=0.25))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("factor", [3.0, 4 * (1 + 1 / 64), 1 + 1 / 64, 8.0])
def test_another_factor_is_not_claimed(make: Any, factor: float) -> None:
    """A factor near R, or of another number, stays unexplained."""
    assert explain(make(loss_factor=factor)) is None


@pytest.mark.parametrize(("gradient_factor", "claimed"), [(0.25, True), (1.0, False)])
def test_what_a_tape_was_asked_for_is_no_mistake_of_a_step_that_is_right(gradient_factor: float, claimed: bool) -> None:
    """Losses that replicas differentiate and average may be a sum each, of which they divide the gradients."""
    case = exact_case(loss_factor=0.25, gradient_factor=gradient_factor)
    found = explain(dataclasses.replace(case, share=0.25, follows=True))
    assert (found is not None) == claimed


def test_one_replica_cannot_explain_a_factor() -> None:
    """With one replica there is no number of replicas to be off by."""
    assert explain(exact_case(clients=1, local_replicas=1, loss_factor=2.0)) is None


@pytest.mark.parametrize(("tail", "rule"), [((4.0, 4.0), "loss_times_replicas"), ((4.0, 3.0), "loss_times_replicas")])
def test_without_variables_only_the_first_step_is_sure(tail: tuple[float, ...], rule: str) -> None:
    """When nothing tells how long the variables agree, later steps are evidence but no condition."""
    run = RunTrace((client(*(step(k, loss=np.float32(x)) for k, x in enumerate(tail, 1)), replicas=2),))
    reference = RunTrace((client(*(step(k, loss=np.float32(2)) for k in (1, 2))),))
    assert rule_of(Case(run, reference, ExactTolerance())) == rule
    assert "No gradients were recorded" in text_of(Case(run, reference, ExactTolerance()))


def test_a_factor_that_fails_before_the_variables_diverge_is_not_claimed() -> None:
    """With variables that agree throughout, every step has to fit."""
    losses = (4.0, 5.0)
    run = [step(k, loss=np.float32(x), variables={"w": 1.0}) for k, x in enumerate(losses, 1)]
    reference = [step(k, loss=np.float32(2), variables={"w": 1.0}) for k in (1, 2)]
    case = Case(RunTrace((client(*run, replicas=2),)), RunTrace((client(*reference),)), ExactTolerance())
    assert explain(case) is None


@pytest.mark.parametrize("losses", [(0.0, 0.0), ()])
def test_a_loss_of_zero_or_none_proves_nothing(losses: tuple[float, ...]) -> None:
    """Zero times R is zero, and no loss is no evidence."""
    steps = [step(k, loss=np.float32(x)) for k, x in enumerate(losses, 1)]
    run, reference = (RunTrace((client(*steps, replicas=count),)) for count in (2, 1))
    assert explain(Case(run, reference, ExactTolerance())) is None


def test_a_wrong_shape_is_no_factor() -> None:
    """A loss that cannot be compared is not explained by a factor."""
    run = RunTrace((client(step(1, loss=np.ones(2)), replicas=2),))
    reference = RunTrace((client(step(1, loss=np.float64(1))),))
    assert explain(Case(run, reference, ExactTolerance())) is None


def test_per_replica_losses_are_explained_too() -> None:
    """The rule sees the sum over replicas that the law compares."""
    truth = Training().run()
    run = Training(clients=2, local_replicas=2, per_replica_loss=True, loss_factor=4.0).run()
    assert rule_of(Case(run, truth, ExactTolerance())) == "loss_times_replicas"


@pytest.mark.parametrize(("first", "rule"), [(2.0, None), (3.0, "loss_divided_by_replicas")])
def test_no_factor_explains_a_step_that_is_right(first: float, rule: str | None) -> None:
    """A tape may be asked for what is divided later; where the step came out right, that explains no later one."""

    def trace(gradient: float, *held: float, replicas: int = 1) -> RunTrace:
        steps = (
            step(
                k,
                loss=np.float32(1.0),
                gradients={"w": np.array([gradient] * 4, np.float32)},
                variables={"w": np.array([value] * 4, np.float32)},
            )
            for k, value in enumerate(held, start=1)
        )
        return RunTrace((client(*steps, replicas=replicas),))

    case = Case(trace(1.0, first, 7.0, replicas=2), trace(2.0, 2.0, 5.0), ExactTolerance(), follows=True)
    assert rule_of(case) == rule


@pytest.mark.parametrize(
    ("factor", "gradient", "size", "claimed"),
    [
        (4.0, 4.0, 3, True),
        (4.0, 0.5, 3, False),
        (0.25, 2.0, 3, False),
        (4.0, 0.5, 2, True),  # of a variable in parts it is not known how far it moves
    ],
)
def test_a_loss_is_not_too_large_where_the_step_moves_less(
    factor: float, gradient: float, size: int, claimed: bool
) -> None:
    """What replicas add up may be divided once more: then it is that division that is wrong."""
    case = exact_case(loss_factor=factor, gradient_factor=gradient)
    begun = Start(0.0, (SeenVariable("w", "copies", (Array.of(np.ones(size, np.float32)),)),))
    run = RunTrace(tuple(msgspec.structs.replace(each, start=begun) for each in case.run.clients))
    found = explain(dataclasses.replace(case, run=run, share=factor, follows=True))
    assert (found is not None and found.rule.startswith("loss_")) == claimed


@pytest.mark.parametrize(("momentum", "claimed"), [(2.0, True), (0.5, False)])
def test_an_optimizer_that_moves_as_far_shows_by_its_slots_what_was_added_up(momentum: float, claimed: bool) -> None:
    """Variables move by a rate whatever the gradient, and slots that the first step makes begin at zero."""

    def trace(times: float, moment: float, weight: float, replicas: int) -> RunTrace:
        gradient = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        held = {"w": np.full(4, weight, np.float32), "m": moment * gradient}
        seen = step(1, loss=np.float32(times), gradients={"w": times * gradient}, variables=held)
        begun = Start(0.0, (SeenVariable("w", "copies", (Array.of(np.ones(4, np.float32)),)),))
        return RunTrace((msgspec.structs.replace(client(seen, replicas=replicas), start=begun),))

    case = Case(trace(2.0, momentum, 0.9000001, 2), trace(1.0, 1.0, 0.9, 1), ExactTolerance(), follows=True, share=2.0)
    assert rule_of(case) == ("loss_times_replicas" if claimed else None)
