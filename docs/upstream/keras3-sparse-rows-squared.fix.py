"""In `keras/src/backend/tensorflow/optimizer.py`, `TFOptimizer._all_reduce_sum_gradients`, add up the rows of an index.

What it returns are the rows of all replicas, one replica's after the other's. Make each sparse gradient one whose
indices are unique, as `_deduplicate_sparse_grad` of tf_keras does, also where there is one replica.
"""

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

own = TFOptimizer._all_reduce_sum_gradients


def added_up(gradient):
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places = tf.unique(gradient.indices)
    rows = tf.math.unsorted_segment_sum(gradient.values, places, tf.shape(indices)[0])
    return tf.IndexedSlices(rows, indices, gradient.dense_shape)


def reduced(self, grads_and_vars):
    return [(added_up(gradient), variable) for gradient, variable in own(self, grads_and_vars)]


TFOptimizer._all_reduce_sum_gradients = reduced
