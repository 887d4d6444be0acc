"""Resumed within an epoch, tf_keras's BackupAndRestore trains steps again that were done in one execution."""

import tempfile

import tensorflow as tf
import tf_keras

folder = tempfile.mkdtemp()


class Stop(tf_keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise InterruptedError


def train(*callbacks):
    model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse", steps_per_execution=3)
    backup = tf_keras.callbacks.BackupAndRestore(folder, save_freq=1)
    model.fit(tf.ones([12, 1]), tf.ones([12, 1]), batch_size=1, verbose=0, callbacks=[backup, *callbacks])
    return int(model.optimizer.iterations.numpy())


try:
    train(Stop())
except InterruptedError:
    steps = train()
    print("as it should be:" if steps == 12 else "wrong:", "steps of the epoch", steps, "right: 12")
