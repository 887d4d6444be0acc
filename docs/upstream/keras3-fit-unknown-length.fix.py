"""In `keras/src/backend/tensorflow/trainer.py`, `TensorFlowTrainer._make_function`, nothing may run before the data.

`multi_step_on_iterator` takes the batch and runs the step in one function, so that what does not read the batch (the
counter of the optimizer, the state of a seed generator) runs also when `iterator.get_next()` finds the end. Call the
step under `tf.control_dependencies` of the tensors of its batch.
"""

import tensorflow as tf
from keras.src import tree
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

at_once = TensorFlowTrainer._make_function


def make_function(self, step_function):
    def after_its_data(data):
        with tf.control_dependencies([each for each in tree.flatten(data) if tf.is_tensor(each)]):
            return step_function(data)

    return at_once(self, after_its_data)


TensorFlowTrainer._make_function = make_function
