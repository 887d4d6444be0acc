"""In `keras/src/backend/tensorflow/trainer.py`, `predict` has to share out datasets by element over workers.

As tf_keras does (`tf_keras/src/engine/training.py`, `predict`): what `_multi_worker_concat` puts in order has to be
shared out by element, and not by file.
"""

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, _collective_all_reduce_multi_worker

over = TensorFlowTrainer.predict


def predict(self, x, *args, **given):
    if isinstance(x, tf.data.Dataset) and _collective_all_reduce_multi_worker(self.distribute_strategy):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
        x = x.with_options(options)
    return over(self, x, *args, **given)


TensorFlowTrainer.predict = predict
