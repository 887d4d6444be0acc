"""In `keras/src/losses/loss.py`, function `apply_mask`, count the unmasked positions of all replicas.

For the reductions to a mean each position has the weight `total / valid`. In a replica context of more than one replica
`valid` has to be the mean over the replicas (an all-reduce of one number): then the losses of all replicas together are
divided by the number of all their unmasked positions.
"""

import tensorflow as tf
from keras.src import ops
from keras.src.losses import loss

of_one = loss.apply_mask


def apply_mask(sample_weight, mask, dtype, reduction):
    context = tf.distribute.get_replica_context()
    if mask is None or reduction not in ("mean", "sum_over_batch_size") or context is None:
        return of_one(sample_weight, mask, dtype, reduction)
    valid = context.all_reduce(tf.distribute.ReduceOp.MEAN, ops.sum(ops.cast(mask, dtype)))
    total = ops.cast(ops.size(mask), dtype)
    return of_one(sample_weight, mask, dtype, "sum") * ops.divide_no_nan(total, valid)


loss.apply_mask = apply_mask
