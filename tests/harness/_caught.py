"""A step that raises, and whose error the program catches."""

from __future__ import annotations

import contextlib
from typing import Any

from harness.evidence.trace import Seen
from harness.recording.witness import Witness, all_seams


def fails_between(strategy: Any) -> tuple[list[int], Any]:
    """A call that fails, between two that do not, and one for which there are no more data.

    Returns:
        How many examples each seen step had, and what is said.
    """
    import tensorflow as tf

    def program() -> None:
        with strategy.scope():
            w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ w)
            w.assign_sub(0.0 * tape.gradient(loss, w))
            return loss

        @tf.function(reduce_retracing=True)
        def train(x: Any, fails: Any) -> Any:
            loss = strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)
            with tf.control_dependencies([loss]):
                tf.debugging.assert_equal(fails, False)
            return loss

        for rows, fails in ((3, False), (4, True), (5, False)):
            with contextlib.suppress(tf.errors.InvalidArgumentError):
                train(tf.ones([rows, 2]), tf.constant(fails))

        @tf.function
        def train_next(iterator: Any) -> None:
            strategy.run(replica, args=(next(iterator),))

        iterator = iter(tf.data.Dataset.from_tensors(tf.ones([7, 2])))
        with contextlib.suppress(tf.errors.OutOfRangeError):
            for _ in range(2):
                train_next(iterator)

    seen: list[Seen] = []
    witness = Witness(strategy, strategy.num_replicas_in_sync, all_seams())
    with witness.active(seen.append):
        program()
    return [len((each.examples or ((),))[0]) for each in seen], (*witness.unseen, *witness.raised)
