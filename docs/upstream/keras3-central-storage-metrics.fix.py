"""In `keras/src/backend/tensorflow/core.py`, class `Variable`, add in place, as TensorFlow's own variables do.

`assign_add(x)` of the base class is `assign(self + x)`, so that an aggregation sums also what the variable had. Add the
methods `assign_add` and `assign_sub` that, outside of a stateless scope, call those of the `tf.Variable` inside.
"""

import tensorflow as tf
from keras.src.backend.common.stateless_scope import in_stateless_scope
from keras.src.backend.tensorflow.core import Variable

over = Variable.assign_add


def assign_add(self, value):
    if in_stateless_scope() or self._value is None:
        return over(self, value)
    self._value.assign_add(tf.cast(value, self._value.dtype))
    return self.value


Variable.assign_add = assign_add
Variable.assign_sub = lambda self, value: assign_add(self, -self._convert_to_tensor(value, dtype=self._dtype))
