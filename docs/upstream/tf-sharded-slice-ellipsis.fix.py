"""In `tensorflow/python/distribute/sharded_variable.py`, `__getitem__` must not hand on an ellipsis to each shard.

What comes after an ellipsis or a new axis may be the first dimension, along which the variable is divided: such slices
have to be taken of the whole variable.
"""

import tensorflow as tf
from tensorflow.python.distribute.sharded_variable import ShardedVariableMixin

alone = ShardedVariableMixin.__getitem__


def getitem(self, slice_spec):
    first = slice_spec[0] if isinstance(slice_spec, tuple) and slice_spec else slice_spec
    if first is Ellipsis or first is tf.newaxis:
        return tf.convert_to_tensor(self)[slice_spec]
    return alone(self, slice_spec)


ShardedVariableMixin.__getitem__ = getitem
