"""The rules about a training step: each names its mistake, under any optimizer, and leaves the others' alone."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.judging.explain import all_rules, closest
from harness.judging.laws import judge_all
from tests.harness._explaining import rule_of, text_of
from tests.harness._replicated import case

REPLICAS = pytest.mark.parametrize("replicas", [2, 3, 4])
# Each number of replicas and each optimizer with each mistake, but not each with each: that would say nothing new.
REPLICAS_AND_OPTIMIZERS = pytest.mark.parametrize(
    ("replicas", "optimizer"), [(2, "momentum"), (3, "adam"), (4, "sgd")], ids=str
)


@REPLICAS_AND_OPTIMIZERS
@pytest.mark.parametrize("options", [{}, {"parts": False}, {"clip": 0.3}, {"overflow": 2}], ids=str)
def test_a_right_run_has_nothing_to_explain(replicas: int, optimizer: str, options: dict[str, Any]) -> None:
    """All laws hold, and no rule claims anything."""
    right = case(replicas, optimizer=optimizer, **options)
    assert not [judgement for judgement in judge_all(right) if judgement.status == "broken"]
    assert [rule.id for rule in all_rules() if rule.explain(right)] == []


@REPLICAS_AND_OPTIMIZERS
@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        ("mean_then_sum", "loss_times_replicas"),
        ("hidden", "loss_times_replicas"),
        ("sum_then_mean", "loss_divided_by_replicas"),
        ("mean_of_means", "mean_of_replica_means"),
        ("regularizer", "regularizer_times_replicas"),
        ("not_reduced", "gradients_not_reduced"),
        *((f"{where}only_{replica}", "gradients_not_reduced") for where in ("", "bias_") for replica in (0, 1)),
        ("bias_not_reduced", "gradients_not_reduced"),
    ],
)
def test_every_mistake_is_named(mistake: str, rule: str, replicas: int, optimizer: str) -> None:
    """With what each replica contributed on record, or, unless only some are wrong, by circumstances with sums only."""
    assert rule_of(case(replicas, mistake, optimizer=optimizer)) == rule
    if "only" not in mistake and "bias" not in mistake:
        assert rule_of(case(replicas, mistake, optimizer=optimizer, parts=False)) == rule


@REPLICAS_AND_OPTIMIZERS
@pytest.mark.parametrize("mistake", ["hidden", "not_reduced"])
def test_first_moments_stand_in_for_gradients(mistake: str, replicas: int, optimizer: str) -> None:
    """Keras `fit` reports the optimizer's variables and no gradients."""
    found = rule_of(case(replicas, mistake, optimizer=optimizer, parts=False, gradients=False))
    assert found == {"hidden": "loss_times_replicas", "not_reduced": "gradients_not_reduced"}[mistake]


@REPLICAS_AND_OPTIMIZERS
def test_clipping_each_gradient_is_named(replicas: int, optimizer: str) -> None:
    """Gradients are on record after clipping."""
    assert rule_of(case(replicas, "clip_first", optimizer=optimizer, clip=0.3)) == "clipped_before_reduce"


@REPLICAS
@pytest.mark.parametrize(
    ("optimizer", "slots"), [("sgd", False), ("momentum", False), ("momentum", True), ("adam", True)]
)
def test_clipping_is_named_where_gradients_are_on_record_before_it(replicas: int, optimizer: str, slots: bool) -> None:
    """The variables tell, or under Adam, whose first update does not know the norm, its first moments."""
    found = case(replicas, "clip_unseen", optimizer=optimizer, slots=slots, clip=0.3, unclipped=True)
    assert rule_of(found) == "clipped_before_reduce"


@REPLICAS_AND_OPTIMIZERS
@pytest.mark.parametrize("mistake", ["decide_each", "decide_first"])
@pytest.mark.parametrize("overflow", [1, 2, 3])
def test_a_local_decision_to_skip_is_named(mistake: str, replicas: int, optimizer: str, overflow: int) -> None:
    """At the first step and later ones."""
    assert rule_of(case(replicas, mistake, optimizer=optimizer, overflow=overflow)) == "local_overflow_decision"


@REPLICAS_AND_OPTIMIZERS
def test_losses_divided_by_own_tokens_are_named(replicas: int, optimizer: str) -> None:
    """With as many examples everywhere and parts on record: the shares are found, and say what to sum first."""
    sizes = (12, 12, 12)
    right, wrong = (
        case(replicas, mistake, optimizer=optimizer, sizes=sizes, tokens=True) for mistake in ("", "mean_of_means")
    )
    assert [rule.id for rule in all_rules() if rule.explain(right)] == []
    assert rule_of(wrong) == "divided_by_own_number"
    text = text_of(wrong)
    assert "its tokens" in text
    shares = [float(share) for share in re.findall(r"([\d.]+) %", text)]
    assert len(shares) == replicas
    assert sum(shares) == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("replicas", [2, 3])
def test_an_uneven_tail_is_proved_or_said_to_be_likely(replicas: int) -> None:
    """The text tells proof from evidence, and lists the shards."""
    proved, likely = (text_of(case(replicas, "mean_of_means", parts=parts)) for parts in (True, False))
    shards = {2: "4 and 3 examples", 3: "3, 2 and 2 examples"}[replicas]
    assert shards in proved
    assert "gives the reference's value" in proved
    assert "evidence, not proof" in likely
    assert "compute_average_loss" in proved


@REPLICAS
def test_clipping_is_likely_where_only_sums_are_on_record(replicas: int) -> None:
    """The reference's norm is the threshold at every step, the run's is another."""
    found = case(replicas, "clip_first", clip=0.1, parts=False)
    assert rule_of(found) == "clipped_before_reduce"


def test_texts_have_numbers_and_cures() -> None:
    """Strength of the penalty, the factor of the updates, the replica whose gradient was used."""
    assert "0.05 x the sum of squares" in text_of(case(3, "regularizer"))
    assert "scale_regularization_loss" in text_of(case(3, "regularizer"))
    assert "with the factor 0.05 for all of them" in text_of(case(3, "not_reduced"))
    assert "replica 1's gradient alone" in text_of(case(3, "only_1"))
    assert "norm 0.3" in text_of(case(2, "clip_first", clip=0.3))
    assert "replica 2" in text_of(case(3, "decide_each", overflow=2))


@REPLICAS_AND_OPTIMIZERS
@pytest.mark.parametrize(("mistake", "said"), [("not_reduced", "do not"), ("only_1", "are right")])
def test_the_affected_part_of_the_variables_is_named(mistake: str, said: str, replicas: int, optimizer: str) -> None:
    """Where the kernel's gradient is reduced and the bias's is not; and nothing of a rest where there is none."""
    text = text_of(case(replicas, f"bias_{mistake}", optimizer=optimizer))
    assert f"Of 2 variables the others {said}." in text
    assert "kernel" not in text
    assert "the others" not in text_of(case(replicas, mistake, optimizer=optimizer)).replace("replica's", "")


def test_two_mistakes_at_once_are_not_explained_but_something_is_closest() -> None:
    """A factor next to the right one is no claim; the attempt that comes nearest is on record."""
    odd = case(2, "divisor")
    assert rule_of(odd) is None
    assert closest(case(2)) is None
