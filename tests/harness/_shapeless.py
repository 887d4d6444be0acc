"""A step of sequences, whose gradient has a shape that the graph does not know."""

from __future__ import annotations

from typing import Any

from harness.evidence.trace import Seen
from harness.recording.witness import Witness, all_seams


def shapeless(strategy: Any) -> tuple[bool, str]:
    """The graph knows no length and so no shape of the gradient: whether it is seen, and what is not."""
    import tensorflow as tf

    def program() -> None:
        with strategy.scope():
            w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

        def replica(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.tensordot(x, w, 1))
            w.assign_sub(tape.gradient(loss, w))

        @tf.function(input_signature=[tf.TensorSpec([None, None, None])])
        def train(x: Any) -> None:
            strategy.run(replica, args=(x,))

        train(tf.ones([3, 5, 2]))

    seen: list[Seen] = []
    witness = Witness(strategy, strategy.num_replicas_in_sync, all_seams())
    with witness.active(seen.append):
        program()
    return bool(seen[0].gradients), str(witness.unseen)
