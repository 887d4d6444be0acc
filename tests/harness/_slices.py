"""A step of a table and a bias: its reduction gives slices and a tensor, and a line says how large its batch is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.evidence.trace import Seen
from harness.recording.witness import Witness, all_seams


def slices(strategy: Any) -> tuple[list[tuple[int, ...]], list[tuple[str, int, int]]]:
    """The shapes of what was seen to leave the reduction, and what was told of the global batch, by lines of here."""
    import tensorflow as tf

    def replica(table: Any, bias: Any, rows: Any) -> None:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.gather(table, rows), axis=1) + bias
            loss = tf.nn.compute_average_loss(losses, global_batch_size=3)  # told
        gradients = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, [table, bias]))
        for variable, gradient in zip((table, bias), gradients, strict=True):
            variable.assign_sub(tf.convert_to_tensor(gradient))

    seen: list[Seen] = []
    witness = Witness(strategy, strategy.num_replicas_in_sync, all_seams())
    with witness.active(seen.append):
        with strategy.scope():
            kept = tf.VariableAggregation.ONLY_FIRST_REPLICA
            table, bias = (tf.Variable(tf.ones(shape), aggregation=kept) for shape in ([5, 2], []))
        step = tf.function(lambda rows: strategy.run(replica, args=(table, bias, rows)))
        step(tf.constant([0, 3, 3]))
    lines = Path(__file__).read_text().splitlines()
    told = [
        (lines[int(each.line.rpartition(":")[2]) - 1], each.batch, each.step) for each in witness.counted["averages"]
    ]
    return [tuple(part.shape) for value in seen[0].reduced for part in value.parts], told
