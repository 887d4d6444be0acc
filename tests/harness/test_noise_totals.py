"""Totals that replicas round to 16 bits each by itself: the noise shows it, and right losses are not accused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from harness import verify
from simulator import Cluster, Topology


def _moved() -> dict[str, float]:
    """By how many eps of bfloat16 noise moves numbers that are cast to float32, each as a share of 8."""
    import contextlib

    import tensorflow as tf

    from harness.recording.noise import Noise, totals

    terms = tf.constant([4.25, 4.0, 3.5, 4.75], tf.bfloat16)
    rate = tf.constant(4.25, tf.bfloat16)
    numbers = {
        "mean": lambda: tf.reduce_mean(terms),
        "half of a sum": lambda: tf.reduce_sum(terms) * 0.5,
        "norm": lambda: tf.nn.l2_loss(terms),
        "product": lambda: tf.einsum("i,i->", terms, terms),
        "difference": lambda: tf.reduce_mean(terms) - tf.reduce_mean(terms) * 0.75,
        "rate": lambda: rate * 2,
        "picked": lambda: terms[1] * 2,
    }

    def cast(number: Callable[[], Any]) -> Any:
        return tf.cast(number(), tf.float32)

    found = {}
    for name, number in numbers.items():
        for traced in (True, False):
            results = []
            for seed in (None, 3):
                noise = contextlib.nullcontext() if seed is None else Noise(seed, [totals]).active()
                with noise:
                    results.append(float(tf.function(partial(cast, number))() if traced else cast(number)))
            found[name if traced else f"eager {name}"] = abs(results[1] / results[0] - 1) * 2**7 * 8
    return found


def test_what_is_computed_from_a_total_is_moved_where_it_is_cast() -> None:
    """By an eighth of an eps of the largest number in a sum; a rate is the same on each replica."""
    with Cluster(Topology(worker=1), timeout=60) as cluster:
        found = cluster.run(_moved)["worker:0"].value
    for name in ("mean", "half of a sum", "norm", "product", "eager mean"):
        assert found[name] == pytest.approx(1.0, rel=0.01), name
    assert found["difference"] == pytest.approx(4.0, rel=0.01)
    for name in ("rate", "picked", "eager rate", "eager picked", "eager difference"):
        assert found[name] == 0.0, name


def loss_in_bfloat16(strategy: Any, record: Any, factor: float = 1.0, eager: bool = False) -> None:
    """Right but for a factor, which the replicas' loss has: each rounds its own mean."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    rows = random.normal(size=(160, 64)).astype("float32")
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(32))
    with strategy.scope():
        weights = tf.Variable(0.1 * random.normal(size=(64, 16)).astype("float32"), name="weights")
    replicas = strategy.num_replicas_in_sync

    def replica(given: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = tf.cast(given, tf.bfloat16) @ tf.cast(weights, tf.bfloat16)
            loss = tf.cast(tf.reduce_mean(tf.square(scores - 1.0)), tf.float32) / replicas
        total = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
        weights.assign_sub(0.1 * total)
        return loss * (factor if replicas > 1 else 1.0)

    def step(given: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=(given,)), axis=None)

    chosen = step if eager else tf.function(step)
    for given in data:
        record.step(loss=chosen(given), variables=[weights])


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "strategy", "outcome"),
    [
        ({}, "mirrored-2", "consistent"),
        ({}, "mirrored-3", "consistent"),
        ({"eager": True}, "mirrored-2", "consistent"),
        ({"factor": 1.05}, "mirrored-2", "inconsistent"),
    ],
)
def test_a_mean_loss_in_bfloat16(options: dict[str, Any], strategy: str, outcome: str) -> None:
    """It is rounded to a part of 256 on each replica, and one of 20 is a mistake."""
    verdict = verify(partial(loss_in_bfloat16, **options), strategy, explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
