"""In `tensorflow/python/distribute/sharded_variable.py`, `assign`, `assign_add`, `assign_sub` have to compare shapes.

Each shard takes its slice of the value, so that what is larger than the variable is cut off without an error.
"""

import tensorflow as tf
from tensorflow.python.distribute.sharded_variable import ShardedVariableMixin


def checked(method):
    def assign(self, value, *args, **kwargs):
        value = tf.convert_to_tensor(value, self.dtype)
        value.shape.assert_is_compatible_with(self.shape)
        return method(self, value, *args, **kwargs)

    return assign


for name in ("assign", "assign_add", "assign_sub"):
    setattr(ShardedVariableMixin, name, checked(getattr(ShardedVariableMixin, name)))
