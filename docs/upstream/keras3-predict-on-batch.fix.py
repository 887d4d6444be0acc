"""In `keras/src/backend/tensorflow/trainer.py` `predict_on_batch` has to distribute its batch, as `predict` does.

It hands the arrays to a function that runs on every replica as they are. So each one has all rows, and what they return
is concatenated. The same holds for `train_on_batch` and `test_on_batch`.
"""

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

alone = TensorFlowTrainer.predict_on_batch


def predict_on_batch(self, x):
    strategy = self.distribute_strategy
    if strategy.num_replicas_in_sync == 1:
        return alone(self, x)
    data = tf.data.Dataset.from_tensors((x,)).rebatch(len(tf.nest.flatten(x)[0]))
    self.make_predict_function()
    outputs = self.predict_function([next(iter(strategy.experimental_distribute_dataset(data)))])
    return tf.nest.map_structure(lambda each: each.numpy(), outputs)


TensorFlowTrainer.predict_on_batch = predict_on_batch
