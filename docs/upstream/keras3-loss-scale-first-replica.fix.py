"""In `keras/src/optimizers/loss_scale_optimizer.py`, `LossScaleOptimizer.check_finite`, ask all replicas.

The gradients are not yet reduced there, other than the comment in `_tf_apply` says. With the TensorFlow backend, in a
replica context of more than one replica, all-reduce the number of replicas whose gradients are finite, and return
whether it is that of all. `_tf_apply` may then take the first replica's answer, as it does.
"""

import tensorflow as tf
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

own = LossScaleOptimizer.check_finite


def check_finite(self, grads):
    finite, context = own(self, grads), tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return finite
    number = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(finite, tf.float32))
    return number == context.num_replicas_in_sync


LossScaleOptimizer.check_finite = check_finite
