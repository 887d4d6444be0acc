"""As in TensorFlow's tutorial "Multi-worker training with Keras", with tf_keras."""

import json
import os

import tensorflow as tf
import tf_keras as keras
from _data import load_data

per_worker_batch_size = 8
tf_config = json.loads(os.environ["TF_CONFIG"])
num_workers = len(tf_config["cluster"]["worker"])

strategy = tf.distribute.MultiWorkerMirroredStrategy()
global_batch_size = per_worker_batch_size * num_workers


def mnist_dataset(batch_size):
    x_train, y_train = load_data(96)
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(96, seed=2).repeat().batch(batch_size)


multi_worker_dataset = mnist_dataset(global_batch_size)
with strategy.scope():
    multi_worker_model = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, activation="tanh", input_shape=(8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(10),
        ]
    )
    multi_worker_model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.01),
        metrics=["accuracy"],
    )
multi_worker_model.fit(multi_worker_dataset, epochs=2, steps_per_epoch=6, verbose=2)


def _is_chief(task_type, task_id):
    return task_type is None or (task_type == "worker" and task_id == 0)


task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id
path = "keras-model" if _is_chief(task_type, task_id) else f"workertemp_{task_id}"
multi_worker_model.save(path)
