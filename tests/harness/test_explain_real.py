"""Explanations of real TensorFlow programs: every mistake that TensorFlow lets one make is named, and no other."""

from __future__ import annotations

import pytest

from harness import verify
from harness.judging.verdict import Verdict
from harness.subject.program import Program
from tests.harness._mistaken import accumulating, commuting, keras_model, masked, metrics, regression, within_step

# Every rule is shown three replicas by the synthetic runs; here they say something new where what is real differs:
# shards of a batch that does not divide are as uneven as TensorFlow makes them.
THREE = "mirrored-3"
REPLICAS = pytest.mark.parametrize("strategy", ["mirrored-2", pytest.param(THREE, marks=pytest.mark.full)])


def _named(program: Program, strategy: str) -> str:
    """The explanation's rule; the text is part of the verdict's."""
    verdict = verify(program, strategy)
    assert not verdict
    assert verdict.explanation is not None, str(verdict)
    words = " ".join(str(verdict).split())
    assert " ".join(f"{verdict.explanation.rule}: {verdict.explanation.evidence}".split()) in words
    assert " ".join(verdict.explanation.cure.split()) in words
    return verdict.explanation.rule


def _right(program: Program, strategy: str) -> Verdict:
    verdict = verify(program, strategy)
    assert verdict, str(verdict)
    return verdict


@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        pytest.param("mean_of_means", "mean_of_replica_means", marks=pytest.mark.full),
        # tests/harness/test_explain_examples.py has it from recorded numbers.
        pytest.param("tail_dropped", "examples_missing", marks=pytest.mark.full),
    ],
)
def test_mistakes_that_depend_on_uneven_shards_are_named(mistake: str, rule: str) -> None:
    """With momentum, three replicas and a last batch that does not divide."""
    assert _named(regression(mistake), THREE) == rule


@REPLICAS
@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        pytest.param("mean_then_sum", "loss_times_replicas", marks=pytest.mark.full),
        pytest.param("hidden_mean_then_sum", "loss_times_replicas", marks=pytest.mark.full),
        pytest.param("sum_then_mean", "loss_divided_by_replicas", marks=pytest.mark.full),
        # In the quick profile with three replicas, above.
        pytest.param("mean_of_means", "mean_of_replica_means", marks=pytest.mark.full),
        pytest.param("regularizer", "regularizer_times_replicas", marks=pytest.mark.full),
        pytest.param("not_reduced", "gradients_not_reduced", marks=pytest.mark.full),
        pytest.param("one_replica", "gradients_not_reduced", marks=pytest.mark.full),
        pytest.param("overlap", "examples_duplicated", marks=pytest.mark.full),
        pytest.param("tail_dropped", "examples_missing", marks=pytest.mark.full),
        ("global_batch", "global_batch_per_replica"),
    ],
)
def test_mistakes_of_a_training_step_are_named(mistake: str, rule: str, strategy: str) -> None:
    """With momentum, two replicas (or three) and a last batch that does not divide."""
    assert _named(regression(mistake), strategy) == rule


@pytest.mark.full  # without Adam in the quick profile, above
@pytest.mark.parametrize("strategy", ["mirrored-2"])
@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("hidden_mean_then_sum", "loss_times_replicas"),
        ("not_reduced", "gradients_not_reduced"),
    ],
)
def test_adam_hides_none_of_them(mistake: str, rule: str, strategy: str) -> None:
    """Adam's update does not grow with the gradient, so what is named must not rest on that."""
    assert _named(regression(mistake, "adam"), strategy) == rule


@pytest.mark.full  # tests/harness/test_explain_steps.py has the same from recorded numbers, scenarios/ the verdict
@REPLICAS
@pytest.mark.parametrize("extra", ["norm", "value"])
def test_clipping_on_each_replica_is_named(extra: str, strategy: str) -> None:
    """By global norm and by value, of gradients reported after clipping."""
    assert _named(regression("clip_first", extra=extra), strategy) == "clipped_before_reduce"


@pytest.mark.full  # tests/harness/test_explain_steps.py has the same from recorded numbers
@REPLICAS
@pytest.mark.parametrize("mistake", ["decide_first", "decide_each"])
def test_skipping_an_overflow_on_one_replica_only_is_named(mistake: str, strategy: str) -> None:
    """The last replica's gradient is infinite: the first decides for all, or each for itself."""
    assert _named(regression(mistake, extra="overflow"), strategy) == "local_overflow_decision"


@pytest.mark.full  # tests/harness/test_explain_steps.py has the same from recorded numbers
@pytest.mark.parametrize("extra", ["", "norm"])
def test_the_right_step_needs_no_explanation(extra: str) -> None:
    """The program without a mistake, under the same strategies."""
    assert _right(regression(extra=extra), "mirrored-2").explanation is None


@pytest.mark.full
def test_a_step_that_overflows_as_it_should_is_not_judged() -> None:
    """All that is finite agrees; of an infinite loss and its gradients nobody can tell whether they are right."""
    verdict = verify(regression(extra="overflow"), "mirrored-2")
    assert verdict.outcome == "abstained", str(verdict)
    assert "not finite in 4 of 52 recorded values" in str(verdict)
    assert verdict.explanation is None


@pytest.mark.full  # tests/harness/test_explain_others.py has the same from recorded numbers
@REPLICAS
@pytest.mark.parametrize("mistake", ["divided_again", "slice_twice", "not_divided"])
def test_accumulation_is_named(mistake: str, strategy: str) -> None:
    """Four slices make an update, and are divided once too often, not at all, or taken twice."""
    assert _named(accumulating(mistake), strategy) == "accumulation_off"


@pytest.mark.full  # tests/harness/test_explain_steps.py has the same from recorded numbers
@pytest.mark.parametrize("strategy", ["mirrored-2"])
def test_accumulation_within_a_step_is_named(strategy: str) -> None:
    """Only the accumulated gradient was reported, four times too large."""
    assert _named(within_step("not_divided"), strategy) == "accumulation_off"


@REPLICAS
@pytest.mark.parametrize(
    "mistake",
    [
        "one_replica",
        *(pytest.param(each, marks=pytest.mark.full) for each in ("sum_of_copies", "sum_of_means", "count_of_one")),
    ],
)
def test_metrics_of_one_replica_or_of_copies_are_named(mistake: str, strategy: str) -> None:
    """Accuracy and counts, while there is no other number to go wrong."""
    assert _named(metrics(mistake), strategy) == "metric_not_aggregated"


@REPLICAS
def test_one_mask_for_all_replicas_is_named(strategy: str) -> None:
    """A stateless seed that does not know the replica."""
    assert _named(masked("same_seed"), strategy) == "identical_random_streams"


# A real check of the quick profile is scenarios/test_batch_norm.py.
@pytest.mark.full
def test_statistics_that_nobody_averages_are_named() -> None:
    """BatchNormalization under `fit`, where nothing but variables and logs is recorded."""
    assert _named(keras_model("norm"), "mirrored-2") == "batch_statistics_local"


@pytest.mark.full
def test_draws_that_keras_makes_alike_are_a_condition() -> None:
    """Dropout under `fit`, of which TensorFlow traces the inner function twice with one replica and once with two."""
    verdict = verify(keras_model("dropout"), "mirrored-2", prove=False)
    assert verdict, str(verdict)
    assert [condition.code for condition in verdict.conditions] == ["equal_draws"]


def test_asynchronous_updates_are_counted() -> None:
    """One of eight updates of a coordinator is scheduled twice; test_verify.py has one that is not scheduled."""
    assert _named(commuting("repeated"), "parameter_server-1w1p") == "update_repeated"
