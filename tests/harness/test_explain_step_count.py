"""Rule `other_number_of_steps`: training ends elsewhere than the reference's, and all that both did is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from harness.evidence.step_range import steps_between
from harness.evidence.trace import RunTrace
from harness.judging.explain import explain
from harness.judging.explain._examples import amiss
from harness.judging.laws import Case
from harness.judging.tolerance import ExactTolerance
from tests.harness._explaining import explained
from tests.harness._pipelines import batched, case_of, run_of, sliced
from tests.harness._replicated import case
from tests.harness._traces import client, edit, step

SIZES = (12, 12, 12, 12, 12)


def _case(run: int, reference: int, mistake: str = "", replicas: int = 2, **options: Any) -> Case:
    """A training that takes so many steps, and its reference, which takes so many of the same ones."""
    whole = case(replicas, mistake, sizes=SIZES, **options)
    return replace(whole, run=_until(whole.run, run), reference=_until(whole.reference, reference))


def _until(run: RunTrace, last: int) -> RunTrace:
    return run if last == len(SIZES) else steps_between(run, 1, last)


@pytest.mark.parametrize("options", [{}, {"examples": False}, {"parts": False}, {"gradients": False}], ids=str)
@pytest.mark.parametrize("replicas", [2, 3])
def test_one_step_more_is_a_cause_of_its_own(options: dict[str, Any], replicas: int) -> None:
    """As by an early stop that the first replica decides: nothing is said of how examples are divided but that."""
    found = explained(_case(5, 4, replicas=replicas, **options))
    assert found.rule == "other_number_of_steps"
    assert (
        "The run took 5 steps, the reference 4: step 5 only the run took. At all 4 that both took, loss" in found.text
    )
    assert ("examples agree" in found.text) == options.get("examples", True)
    assert "strategy.reduce" in found.text


def test_fewer_steps_are_listed_too() -> None:
    """Whole steps that were never done are no tail that a batch has dropped."""
    found = explained(_case(3, 5))
    assert found.rule == "other_number_of_steps"
    assert "steps 4, 5 only the reference took" in found.text


def test_epochs_are_counted_where_only_epochs_are_on_record() -> None:
    """Under parameter servers Keras records the ends of epochs."""
    steps = [step(k, loss=float(k), epoch=(k + 1) // 2, epoch_end=k % 2 == 0) for k in range(1, 7)]
    epochs = [step(k, loss=2.0 * k, epoch=k, epoch_end=True) for k in range(1, 5)]
    reference = RunTrace((client(*steps),))
    for count, text in ((4, "4 epochs, the reference 3: epoch ending with step 7 only the run"), (2, "reference took")):
        run = RunTrace((client(*epochs[:count], per_epoch=True),))
        assert text in explained(Case(run, reference, ExactTolerance())).text


@pytest.mark.parametrize("mistake", ["not_reduced", "mean_then_sum", "regularizer"])
def test_a_mistake_in_the_steps_is_named_before(mistake: str) -> None:
    """Neither this rule nor those about examples claim a run whose common steps are wrong."""
    wrong = _case(5, 4, mistake)
    assert explained(wrong).rule == explained(_case(5, 5, mistake)).rule != "other_number_of_steps"
    assert amiss(wrong) is None


def test_what_additional_steps_consumed_is_no_duplicate() -> None:
    """Also where something else is wrong that nothing explains."""
    wrong = _case(5, 4, "divisor")
    assert explain(wrong) is None
    # The fifth step reads what the first has read.
    first = wrong.run.clients[0].steps[0].examples
    again = replace(wrong, run=edit(wrong.run, 0, 5, examples=first))
    assert explain(again) is None
    assert amiss(again) is None


def test_examples_that_common_steps_share_wrongly_are_still_claimed() -> None:
    """Everybody reads everything, for more steps: the additional ones count as well."""
    ids = list(range(48))
    found = explained(case_of(run_of([batched(ids, 6), batched(ids, 6)]), [ids], 12))
    assert (found.rule, found.cause) == ("examples_duplicated", "auto_shard_off")


def test_a_dropped_tail_stays_one() -> None:
    """The last batch, which is not full, was never read: its step is missing, and why is known."""
    ids = list(range(53))
    found = explained(case_of(run_of(sliced(ids[:48], 12, 2)), [ids], 12))
    assert (found.rule, found.cause) == ("examples_missing", "dropped_tail")
    full = explained(case_of(run_of(sliced(ids[:36], 12, 2)), [ids[:48]], 12))
    assert full.rule == "other_number_of_steps"


def test_nothing_is_claimed_without_a_value_to_compare_or_without_a_difference() -> None:
    """Numbers of steps alone do not say that the steps are the same ones."""
    assert explain(_case(4, 4)) is None
    bare = RunTrace(tuple(msgspec.structs.replace(one, steps=(step(1), step(2))) for one in _case(4, 4).run.clients))
    assert explain(Case(bare, _case(4, 3).reference, ExactTolerance())) is None
