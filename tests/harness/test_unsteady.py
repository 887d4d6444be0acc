"""Programs whose number of steps follows from a clock: nobody knows how many one device should do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from harness import verify


def _train(strategy: Any, record: Any, goes_on: Callable[[int], bool]) -> None:
    import numpy as np
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable(tf.zeros([5]), name="w")

    @tf.function
    def train(x: Any) -> None:
        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1.0) ** 2) / 16
            w.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

        strategy.run(step, args=(x,))

    x = np.random.default_rng(7).normal(size=(1600, 5)).astype(np.float32)
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(16))
    for number, batch in enumerate(data, start=1):
        train(batch)
        record.step(variables=[w])
        if not goes_on(number):
            break


def by_the_clock(strategy: Any, record: Any) -> None:
    """As many steps as a budget of time allows, of a length that is another one in each process."""
    began, seconds = time.monotonic(), 0.03 + time.time_ns() // 1000 % 89 / 400

    def goes_on(number: int) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            """A step of 0.03 to 0.25 s: on a busy machine as many of one length may fit into both runs."""
        return time.monotonic() - began < 3

    _train(strategy, record, goes_on)


def by_replicas(strategy: Any, record: Any) -> None:
    """A mistake: more steps on more replicas."""
    _train(strategy, record, lambda number: number < 4 + strategy.num_replicas_in_sync)


@pytest.mark.full
@pytest.mark.parametrize(("program", "outcome"), [(by_the_clock, "abstained"), (by_replicas, "inconsistent")])
def test_a_budget_of_time_is_no_mistake(program: Callable[..., None], outcome: str) -> None:
    """A number of steps that follows from the number of replicas is one."""
    # A run and its reference may come to as many steps by chance; three times they do not.
    verdicts = (verify(program, "mirrored-2", prove=False, explain=False) for _ in range(3))
    verdict = next((each for each in verdicts if each.outcome != "consistent"), None)
    assert verdict is not None
    assert verdict.outcome == outcome
    assert ("follows from a clock" in str(verdict.abstained)) is (outcome == "abstained")
