"""In `tf_keras/src/utils/losses_utils.py`, `apply_valid_mask`, count the unmasked positions of all replicas.

For the reductions to a mean each position has the weight `total / valid`. In a replica context of more than one replica
`valid` has to be the mean over the replicas (an all-reduce of one number): then the losses of all replicas together are
divided by the number of all their unmasked positions.
"""

import tensorflow as tf
from tf_keras.src.utils import losses_utils

of_one = losses_utils.apply_valid_mask


def apply_valid_mask(losses, sw, mask, reduction):
    context = tf.distribute.get_replica_context()
    if mask is None or reduction not in ("auto", "sum_over_batch_size") or context is None:
        return of_one(losses, sw, mask, reduction)
    valid = context.all_reduce(tf.distribute.ReduceOp.MEAN, tf.reduce_sum(tf.cast(mask, losses.dtype)))
    total = tf.cast(tf.size(mask), losses.dtype)
    return of_one(losses, sw, mask, "sum") * tf.math.divide_no_nan(total, valid)


losses_utils.apply_valid_mask = apply_valid_mask
