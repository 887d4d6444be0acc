"""A parameter-server training whose updates can be counted one by one, whatever their order."""

from __future__ import annotations

import time
from typing import Any

from harness import StrategyCase

UPDATES = 24
# A power of two: so many updates of one element are exact.
LEARNING_RATE = 0.125
_CLOSURE_SECONDS = 0.06


def train(case: StrategyCase, *, updates: int = UPDATES) -> dict[str, Any]:
    """Schedule so many updates, announce step 1 when a quarter of them is done, wait for the others, announce step 2.

    Update i is a step of gradient descent on `sum(c_i * w)` with a one in element i of `c_i` and zeros elsewhere. Its
    gradient does not depend on `w`, so the updates commute, and element i of `w` says how often update i was applied.
    Each closure goes on computing for a while after its update, so that a worker dies with its update done and not yet
    reported.

    Returns:
        `weights`, `counter` (one is added in each update), `retries` (closures that the coordinator took back from a
        worker that had failed) and `seconds` of the waiting.
    """
    import tensorflow as tf

    from simulator.agent import current

    strategy = case.build()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([updates], tf.float64))
        counter = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def update(chosen: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.one_hot(chosen, updates, dtype=tf.float64) * weights)
        weights.assign_sub(LEARNING_RATE * tape.gradient(loss, weights))
        counter.assign_add(1)
        until = tf.timestamp() + _CLOSURE_SECONDS
        return tf.while_loop(lambda now: now < until, lambda _: (tf.timestamp(),), [tf.timestamp()])

    retried = _count_retries(coordinator)
    task = current()
    assert task is not None
    for number in range(updates):
        coordinator.schedule(update, args=(tf.constant(number),))
    while int(counter.numpy()) < updates // 4:
        pass  # each look is a request to the ps
    task.step(1)
    began = time.monotonic()
    coordinator.join()
    seconds = time.monotonic() - began
    task.step(2)
    return {
        "weights": weights.numpy().tolist(),
        "counter": int(counter.numpy()),
        "retries": len(retried),
        "seconds": seconds,
    }


def _count_retries(coordinator: Any) -> list[Any]:
    """The closures that have been put back, as they come; TensorFlow has no public count of them."""
    queue = coordinator._cluster.closure_queue  # noqa: SLF001
    put_back, retried = queue.put_back, []

    def counted(closure: Any) -> Any:
        retried.append(closure)
        return put_back(closure)

    queue.put_back = counted
    return retried
