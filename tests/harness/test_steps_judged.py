"""Each step is judged from what the run's own step had: state, examples and draws."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.judging.verdict import Verdict
from tests.harness._called import json_of
from tests.harness._evaluating import evaluating
from tests.harness._random_steps import MISTAKES, random_resuming, random_steps, random_weights
from tests.harness._sharing import sharing
from tests.harness._wrong_steps import STEPS, halving, logistic, sgd_fit, with_momentum

_WRONG = (3, 7)


def _steps(verdict: Verdict) -> tuple[list[int], int]:
    found = verdict.to_json()
    return found["wrong_steps"], found["right_steps"]


@pytest.mark.full  # one step is quick
@pytest.mark.parametrize("strategy", ["mirrored-2", pytest.param("multi_worker-2", marks=pytest.mark.full)])
def test_a_mistake_at_two_steps_is_wrong_at_these_two(strategy: str) -> None:
    """And at no other, though each of the two leaves a wrong variable behind."""
    program = sharing(halving(_WRONG), halving())
    verdict = verify(program, strategy, tier="exact", forced=True)
    assert _steps(verdict) == ([*_WRONG], STEPS - len(_WRONG)), str(verdict)
    assert "steps 3 and 7 are wrong by themselves, 8 steps agree" in str(verdict)


@pytest.mark.full  # the wrong steps of other programs show it too
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_fit_goes_on_from_weights_slots_and_running_means(flavour: str) -> None:
    """One step of six is wrong; Keras's logs are means over the epoch, and those of later steps are right again."""
    verdict = verify(sharing(sgd_fit(flavour, wrong_at=2), sgd_fit(flavour)), "mirrored-2")
    assert _steps(verdict) == ([2], 5), str(verdict)
    assert verdict.notes == ()


@pytest.mark.full
@pytest.mark.parametrize("wrong_at", [45, 0])
def test_a_chaotic_training_is_judged(wrong_at: int) -> None:
    """Rounding cannot grow from step to step: one step is seen to be wrong, and all others to be right."""
    verdict = verify(sharing(logistic(wrong_at), logistic()), "mirrored-2")
    assert bool(verdict) == (not wrong_at), str(verdict)
    if wrong_at:
        assert _steps(verdict) == ([wrong_at], 49), str(verdict)


def test_a_slot_that_is_not_reported_carries_no_mistake_on() -> None:
    """It is compared, and set to the run's, where the next step begins."""
    verdict = verify(sharing(with_momentum(wrong_at=3), with_momentum()), "mirrored-2", tier="exact")
    assert _steps(verdict) == ([3], 5), str(verdict)
    assert verdict.notes == ()


def test_nan_is_gone_on_from(tmp_path: Path) -> None:
    """The step that makes it is wrong; after it nothing can be judged. A saved run says the same."""
    program = sharing(halving((4,), divisor=0.0), halving())
    out = tmp_path / "out"
    verdict = verify(program, "mirrored-2", tier="exact", out=out)
    assert _steps(verdict) == ([4], 3), str(verdict)
    assert verdict.outcome == "inconsistent"
    assert json_of("report", out, code=1) == verdict.to_json()


@pytest.mark.parametrize("kind", ["dropout", pytest.param("augmentation", marks=pytest.mark.full)])
def test_a_random_training_is_judged(kind: str) -> None:
    """What replicas draw is yielded, so that no seed is needed, and data may be in an order that nobody knows."""
    verdict = verify(random_steps(kind), "mirrored-2")
    assert verdict, str(verdict)
    assert [each.code for each in verdict.conditions] == ["order_of_examples"]
    assert verdict.resolution["variables"].tightest is not None


def _built_first(strategy: Any, record: Any) -> None:
    """Replicas are run once before anything is trained, as to build the variables of a model."""
    import numpy as np
    import tensorflow as tf

    data = tf.data.Dataset.from_tensor_slices(np.random.RandomState(1).randn(24, 3).astype("f4")).batch(8)
    batches = iter(strategy.experimental_distribute_dataset(data))
    with strategy.scope():
        w = tf.Variable([[0.5], [0.25], [1.0]])

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ w - 1.0) ** 2) / 8
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))

    strategy.run(tf.function(lambda x: x @ w), args=(next(batches),))
    step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
    for x in batches:
        step(x)


@pytest.mark.full
def test_a_call_that_trains_nothing_is_no_step() -> None:
    """Also in the process that follows, which takes it for the same call of the run's."""
    verdict = verify(_built_first, "mirrored-2")
    assert verdict, str(verdict)
    assert verdict.resolution["variables"].elements == 2 * 3


@pytest.mark.parametrize(
    "mistake", [pytest.param(each, marks=pytest.mark.full) if full else each for each, full in MISTAKES]
)
def test_a_mistake_in_a_random_training_is_found(mistake: str) -> None:
    """A draw swapped, a row twice, a mask scaled wrongly, a reduction that is a sum: by far more than its bound."""
    verdict = verify(random_steps("dropout", mistake), "mirrored-2", explain=False)
    assert verdict.outcome == "inconsistent", str(verdict)
    assert verdict.abstained is None


@pytest.mark.full
@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("mistake", ["", "by_number"])
def test_what_replicas_draw_for_themselves_is_given_and_their_number_is_not(mistake: str, explain: bool) -> None:
    """Noise of weights belongs to no example; each replica that stands for a whole is the first one, and the only one
    to TensorFlow's helpers for losses.
    """
    verdict = verify(random_weights(mistake), "mirrored-2", prove=False, explain=explain)
    assert verdict.outcome == ("inconsistent" if mistake else "consistent"), str(verdict)
    assert verdict.culprit is None
    (condition,) = (each for each in verdict.conditions if each.code == "own")
    assert re.search(r"its own draws at \S*_random_steps.py:\d+$", condition.text)


@pytest.mark.full
@pytest.mark.parametrize("wrong", [False, True])
def test_an_evaluation_is_judged(wrong: bool) -> None:
    """A mean of replicas' means, of which one has fewer examples, is no mean; nothing that is trained shows it."""
    verdict = verify(functools.partial(evaluating, wrong=wrong), "mirrored-2", explain=False, prove=False)
    law = next(law for law in verdict.judgements if law.law == "evaluations_match_reference")
    assert (verdict.outcome, law.status) == (("inconsistent", "broken") if wrong else ("consistent", "held")), str(
        verdict
    )
    assert {law.law for law in verdict.judgements if law.status == "broken"} <= {"evaluations_match_reference"}
    if wrong:
        assert re.match(r"measured \(_evaluating\.py:\d+\) after step 1: ", law.findings[0].text)


@pytest.mark.full
def test_the_parts_of_a_random_training_are_judged() -> None:
    """No seed says what a run draws that is started again; two parts of it are still one training."""
    verdict = verify(random_resuming(), "mirrored-2", interrupt_at=4)
    assert verdict, str(verdict)
    assert verdict.interrupted is not None
    assert verdict.interrupted["resumed_at"] == 3
    assert "variables_match_reference" in {law.law for law in verdict.judgements if law.status == "held"}


@pytest.mark.full
def test_a_mistake_in_a_resumed_random_training_is_found() -> None:
    """Its momentum is not restored, which only the step after it shows."""
    verdict = verify(random_resuming("slots"), "mirrored-2", interrupt_at=4, explain=False)
    assert verdict.outcome == "inconsistent", str(verdict)
