"""In `keras/src/backend/tensorflow/optimizer.py`, class `TFOptimizer`, sum over the replicas before clipping.

Add a method `_clip_gradients` that first calls `_all_reduce_sum_gradients`, and then clips as `BaseOptimizer` does; and
take that call out of `_backend_update_step`, which is reached only with what `_clip_gradients` has returned. There is
one reduction in a step, as before, and the limit holds for the gradient that is applied.
"""

from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer

summed = TFOptimizer._all_reduce_sum_gradients


def clip_the_sum(self, grads):
    return BaseOptimizer._clip_gradients(self, [total for total, _ in summed(self, [(each, None) for each in grads])])


TFOptimizer._clip_gradients = clip_the_sum
TFOptimizer._all_reduce_sum_gradients = lambda self, grads_and_vars: grads_and_vars
