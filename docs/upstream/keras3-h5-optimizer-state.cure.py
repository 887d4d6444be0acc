"""In the `.keras` format the optimizer's slots are kept, and `fit` goes on as without a save."""

import pathlib
import tempfile

import keras
import numpy as np

path = pathlib.Path(tempfile.mkdtemp(), "model.keras")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(), keras.losses.MeanSquaredError())
x, y = np.ones((4, 4)), np.ones((4, 2))
model.fit(x, y, verbose=0)
model.save(path)
loaded = keras.models.load_model(path)
for each in (model, loaded):
    each.fit(x, y, verbose=0)
states = [[v.numpy() for v in (*each.variables, *each.optimizer.variables)] for each in (model, loaded)]
same = len(states[0]) == 2 + 6 and all(map(np.array_equal, *states))
print("as it should be:" if same else "wrong:", "trained on, both have the same", len(states[1]), "variables")
