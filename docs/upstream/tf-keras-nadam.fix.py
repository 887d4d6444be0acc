"""In `tf_keras/src/optimizers/nadam.py`, class `Nadam`, multiply the running product once a step, on every replica.

`update_step` decides by `_u_product_counter`, a number of Python that counts traces, whether the product is up to date.
Take the counter and the `tf.cond` out of it, so that it only reads `_u_product`, and add `_internal_apply_gradients`,
which multiplies `_u_product` by the step's factor before it calls that of the base class. (Here the condition stays,
and the counter is always equal, which leaves the same branch.)
"""

import tensorflow as tf
from tf_keras.optimizers import Nadam


class Equal:
    __hash__ = None

    def __eq__(self, other):
        return tf.constant(True)

    def __iadd__(self, other):
        return self


def advance_once(self, grads_and_vars):
    step = tf.cast(self.iterations + 1, self._u_product.dtype)
    self._u_product.assign(self._u_product * self.beta_1 * (1.0 - 0.5 * 0.96**step))
    self._u_product_counter = Equal()
    return super(Nadam, self)._internal_apply_gradients(grads_and_vars)


Nadam._internal_apply_gradients = advance_once
