"""What the number of replicas means at a line that is not of a batch: a rate, or a number of steps."""

from __future__ import annotations

import pytest

from harness.judging.conditions import COUNTED
from tests.harness._loop import LOOP, Verified

_RATE = (
    LOOP.replace(
        'tf.Variable(tf.zeros([3]), name="w")', 'tf.Variable(tf.zeros([3]), name="w")\n    rate = tf.Variable(RATE)'
    )
    .replace("w.assign_sub(0.1 *", "w.assign_sub(rate *")
    .replace("BATCH = 4 * strategy.num_replicas_in_sync", "BATCH = 8")
)
_BATCHES = "dataset.unbatch().batch(8 // strategy.num_replicas_in_sync)"
_MEAN_OF_EACH = "tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)"
_SHARE = "tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / BATCH"


@pytest.mark.full
@pytest.mark.parametrize(
    ("rate", "loss", "outcome"),
    [
        ("0.1 / strategy.num_replicas_in_sync", _MEAN_OF_EACH, "abstained"),  # which makes up for a sum of means
        ("0.1", _MEAN_OF_EACH, "inconsistent"),
        ("0.1 / strategy.num_replicas_in_sync", f"0.3 * tf.reduce_sum(w * w) + {_SHARE}", "inconsistent"),
    ],
)
def test_a_rate_that_is_divided_may_make_up_for_a_sum_of_means(
    rate: str, loss: str, outcome: str, verified: Verified
) -> None:
    """Each step has the run's rate, so that one device does not show it; another mistake stands."""
    script = _RATE.replace("RATE", rate, 1).replace(_SHARE, loss).replace("tf.zeros([3])", "tf.fill([3], 0.5)")
    verdict = verified(script, "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


@pytest.mark.full
@pytest.mark.parametrize(
    ("rate", "dataset", "counted"),
    [
        ("0.8 / (8 // strategy.num_replicas_in_sync)", "experimental_distribute_dataset(dataset)", True),
        ("0.1", f"distribute_datasets_from_function(lambda context: {_BATCHES})", False),
    ],
)
def test_a_whole_number_that_is_divided_is_a_condition_where_it_is_no_batch(
    rate: str, dataset: str, counted: bool, verified: Verified
) -> None:
    """Such as the steps of a schedule, of which one device has as many as are written; a batch is the run's."""
    script = _RATE.replace("RATE", rate, 1).replace("experimental_distribute_dataset(dataset)", dataset)
    verdict = verified(script, "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert (COUNTED in {each.code for each in verdict.conditions}) is counted


@pytest.mark.full
@pytest.mark.parametrize(
    ("steps", "counted"),
    [
        ("24 // (8 * strategy.num_replicas_in_sync)", True),  # of batches that nobody has
        ("24 // 8 // strategy.num_replicas_in_sync", True),
        ("24 // (4 * strategy.num_replicas_in_sync)", False),  # of the run's
    ],
)
def test_a_number_of_steps_is_a_condition_where_one_device_takes_more(
    steps: str, counted: bool, verified: Verified
) -> None:
    """Each step that the run takes is right, and it ends before one device does."""
    script = LOOP.replace("BATCH = 4 * strategy.num_replicas_in_sync", f"BATCH, STEPS = 8, {steps}")
    script = script.replace("distribute_dataset(dataset)", "distribute_dataset(dataset.take(STEPS))")
    verdict = verified(script, "mirrored-2", "2", explain=False, prove=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert (COUNTED in {each.code for each in verdict.conditions}) is counted
