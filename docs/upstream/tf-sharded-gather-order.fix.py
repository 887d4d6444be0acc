"""In `tensorflow/python/distribute/sharded_variable.py`, `ShardedVariableMixin.sparse_read` has to order the rows.

What shards give is to be put in the order of `indices` (by `parallel_dynamic_stitch`, as `embedding_lookup` does), and
not one shard after the other. With it `tf.gather` is right too, also for indices of more than one dimension.
"""

import tensorflow as tf
from tensorflow.python.distribute.sharded_variable import ShardedVariableMixin
from tensorflow.python.ops import embedding_ops


def sparse_read(self, indices, name=None):
    indices = tf.convert_to_tensor(indices)
    return embedding_ops.embedding_lookup(self.variables, indices, partition_strategy="div", name=name)


ShardedVariableMixin.sparse_read = sparse_read
