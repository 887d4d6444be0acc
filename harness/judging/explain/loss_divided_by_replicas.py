"""Rules: the loss is too small by the number of replicas or workers."""

from __future__ import annotations

from harness.judging.explain._scaling import Scaling, replicas, workers
from harness.judging.explain.protocol import Rule

_REPLICAS = (
    "Usual cause: each replica divides by the global batch already (tf.nn.compute_average_loss) and the results "
    "are then averaged. Reduce with strategy.reduce(tf.distribute.ReduceOp.SUM, ...), or let each replica "
    "average over its own batch and keep ReduceOp.MEAN. In a train_step of your own under Keras 3's fit, "
    "compute_loss() has divided by the replicas: give a metric the losses of the examples instead."
)
_WORKERS = (
    "Usual cause: the loss is divided by the batch of the whole cluster and then averaged over the workers, or "
    "only one worker's share is reported. Reduce once, with strategy.reduce(tf.distribute.ReduceOp.SUM, ...), "
    "over all replicas."
)

RULES: tuple[Rule, ...] = (
    Scaling("loss_divided_by_replicas", 51, replicas, divides=True, unit="replicas", cure=_REPLICAS),
    Scaling("loss_divided_by_workers", 56, workers, divides=True, unit="workers", cure=_WORKERS),
)
