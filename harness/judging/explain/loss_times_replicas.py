"""Rules: the loss is too large by the number of replicas or workers."""

from __future__ import annotations

from harness.judging.explain._scaling import Scaling, replicas, workers
from harness.judging.explain.protocol import Rule

_REPLICAS = (
    "Usual cause: each replica averages over its own batch and the averages are then summed. Divide by the "
    "global batch with tf.nn.compute_average_loss(per_example_loss, global_batch_size=...) before "
    "strategy.reduce(tf.distribute.ReduceOp.SUM, ...), or reduce the report with ReduceOp.MEAN; divide "
    "regularization terms with tf.nn.scale_regularization_loss."
)
_WORKERS = (
    "Usual cause: the batch size given to tf.nn.compute_average_loss(..., global_batch_size=...) is one "
    "worker's, or an already reduced value is summed over the workers once more. Pass the batch size of the "
    "whole cluster, and reduce once with strategy.reduce."
)

RULES: tuple[Rule, ...] = (
    Scaling("loss_times_replicas", 50, replicas, divides=False, unit="replicas", cure=_REPLICAS),
    Scaling("loss_times_workers", 55, workers, divides=False, unit="workers", cure=_WORKERS),
)
