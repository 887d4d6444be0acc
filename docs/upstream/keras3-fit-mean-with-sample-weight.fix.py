"""In `keras/src/losses/loss.py`, `reduce_values`, divide by the sum of the weights of all replicas.

For "mean_with_sample_weight" the sum of the weights has to be all-reduced where the loss is computed in a replica
context, and the quotient, of which the replicas' gradients are added up, is not scaled by 1 / R any more.
"""

import tensorflow as tf
from keras.src import ops
from keras.src.losses import loss as module

alone = module.reduce_values


def reduce_values(values, sample_weight=None, reduction="sum_over_batch_size"):
    context = tf.distribute.get_replica_context()
    if reduction != "mean_with_sample_weight" or sample_weight is None or context is None or not values.shape.rank:
        return alone(values, sample_weight, reduction)
    divisor = context.all_reduce(tf.distribute.ReduceOp.SUM, ops.cast(ops.sum(sample_weight), values.dtype))
    return ops.divide_no_nan(ops.sum(values), divisor)


module.reduce_values = reduce_values
