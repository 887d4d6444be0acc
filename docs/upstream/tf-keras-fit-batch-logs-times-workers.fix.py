"""In `tf_keras/src/engine/training.py`, `reduce_per_replica`, "auto" has to mean "first" with several workers too.

It means "sum" for all but TPUs. Under one worker's strategy a metric's result is no PerReplica value and is left as it
is; with several workers `_reduce` adds it up over them, though each has the result of all. The condition for "first"
becomes: a TPUStrategy, or a strategy for which `_collective_all_reduce_multi_worker` is true.
"""

from tf_keras.src.engine import training

added_up = training.reduce_per_replica


def reduce_per_replica(values, strategy, reduction):
    if reduction == "auto" and training._collective_all_reduce_multi_worker(strategy):
        reduction = "first"
    return added_up(values, strategy, reduction)


training.reduce_per_replica = reduce_per_replica
