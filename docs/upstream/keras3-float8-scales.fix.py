"""In `keras/src/backend/tensorflow/optimizer.py` a gradient that overwrites its variable needs the replicas' largest.

`_overwrite_variables_directly_with_gradients` assigns such gradients (scales and histories of largest values of
float8) as each replica has them. In a replica context the largest over replicas has to be taken first.
"""

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer
from keras.src.optimizers.base_optimizer import BaseOptimizer


def overwrite(self, grads, variables):
    context = tf.distribute.get_replica_context()
    if context is not None and context.num_replicas_in_sync > 1:
        grads = [
            tf.reduce_max(context.all_gather(grad[None], axis=0), axis=0)
            if self._overwrite_variable_with_gradient(variable)
            else grad
            for grad, variable in zip(grads, variables, strict=True)
        ]
    return BaseOptimizer._overwrite_variables_directly_with_gradients(self, grads, variables)


TFOptimizer._overwrite_variables_directly_with_gradients = overwrite
