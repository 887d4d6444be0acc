"""A subclass that keeps the state of its seed generator in the files of Keras and, as an attribute, in a Checkpoint."""

import pathlib
import tempfile

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable()
class Dropout(keras.layers.Dropout):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.kept = self.seed_generator.state.value  # a tf.Variable, which Checkpoint finds

    def save_own_variables(self, store):
        store["seed"] = self.kept

    def load_own_variables(self, store):
        self.kept.assign(store["seed"])


def make():
    return keras.Sequential([keras.Input((4,)), Dropout(0.5, seed=3)])


folder, model, weights, read = pathlib.Path(tempfile.mkdtemp()), make(), make(), make()
model(tf.ones((1, 4)), training=True)
model.save(folder / "whole.keras")
model.save_weights(folder / "some.weights.h5")
path = tf.train.Checkpoint(model=model).write(folder / "checkpoint")
weights.load_weights(folder / "some.weights.h5")
tf.train.Checkpoint(model=read).read(path).assert_consumed()
states = [
    m.variables[0].numpy().tolist() for m in (model, keras.models.load_model(folder / "whole.keras"), weights, read)
]
print("as it should be:" if states == [[3, 1]] * 4 else "wrong:", "saved, .keras, .weights.h5, Checkpoint:", *states)
