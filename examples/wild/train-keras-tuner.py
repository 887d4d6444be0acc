"""KerasTuner: a search that builds, compiles and fits two models under the strategy that it is given."""

# /// script
# dependencies = ["keras-tuner==1.4.8"]
# [tool.lockstep]
# cases = ["search mirrored-2"]
# ///

import keras
import keras_tuner
import numpy as np

rng = np.random.default_rng(0)
X = rng.normal(size=(64, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def model_of(choices):
    units = choices.Choice("units", [4, 8])
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(units, "tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", jit_compile=False)
    return model


def search(strategy, record):
    tuner = keras_tuner.GridSearch(
        model_of, "val_loss", directory=record.directory, distribution_strategy=strategy, overwrite=True
    )
    tuner.search(X, Y, batch_size=16, shuffle=False, validation_data=(X, Y), verbose=0)
    losses = [trial.score for trial in tuner.oracle.trials.values()]
    record.final(metrics={f"val_loss of trial {number}": loss for number, loss in enumerate(losses)})
