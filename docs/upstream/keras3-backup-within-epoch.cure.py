"""A backup at the end of each epoch, which is the default, is resumed where it was made: no batch is trained twice."""

import tempfile

import keras
import numpy as np

folder = tempfile.mkdtemp()
x = np.eye(4, dtype=np.float32)  # batch N adds 1 to weight N


class Interrupt(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == 4 + 3:  # in the second epoch
            raise KeyboardInterrupt


def fit(*callbacks):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(1.0), loss=lambda target, output: -output)
    callbacks = [keras.callbacks.BackupAndRestore(folder), *callbacks]
    model.fit(x, np.zeros((4, 1)), batch_size=1, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
    times = model.get_weights()[0].ravel().tolist()
    print("as it should be:" if times == [2] * 4 else "wrong:", "times that each batch was trained:", times)


try:
    fit(Interrupt())
except KeyboardInterrupt:
    fit()
