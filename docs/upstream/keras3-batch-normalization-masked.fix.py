"""In `keras/src/layers/normalization/batch_normalization.py`, `_moments`, the branch for a mask has to synchronize too.

Where `synchronized` is set and the step runs in a replica context, the number of positions that the mask leaves and the
sums over them have to be all-reduced before they are divided: first for the mean, then for the squares around it.
"""

import tensorflow as tf
from keras.src import backend, ops
from keras.src.layers import BatchNormalization

alone = BatchNormalization._moments


def moments(self, inputs, mask):
    context = tf.distribute.get_replica_context()
    if mask is None or not self.synchronized or context is None:
        return alone(self, inputs, mask)
    there = ops.broadcast_to(ops.expand_dims(ops.cast(mask, "bool"), -1), ops.shape(inputs))

    def total(values):
        own = ops.sum(ops.where(there, values, 0), self._reduction_axes, keepdims=True)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own)

    count = total(ops.ones_like(inputs)) + backend.epsilon()
    mean = total(inputs) / count
    variance = total(ops.square(inputs - mean)) / count
    return ops.squeeze(mean, self._reduction_axes), ops.squeeze(variance, self._reduction_axes)


BatchNormalization._moments = moments
