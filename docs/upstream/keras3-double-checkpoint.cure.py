"""A whole model in a file of its own for each epoch, named by it: what cannot be loaded is passed over."""

import pathlib
import tempfile

import keras
import numpy as np

folder = pathlib.Path(tempfile.mkdtemp())
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
keep = keras.callbacks.ModelCheckpoint(folder / "{epoch:04d}.keras")
model.fit(np.ones((8, 4)), np.ones(8), epochs=2, callbacks=[keep], verbose=0)
(folder / "0002.keras").write_bytes((folder / "0002.keras").read_bytes()[:-100])  # killed while it was written


def latest():
    for path in sorted(folder.glob("*.keras"), reverse=True):
        try:
            return keras.models.load_model(path), int(path.stem)
        except (ValueError, OSError, KeyError) as error:
            print(path.name, "is passed over:", str(error)[:40])
    return model, 0


resumed, epoch = latest()
resumed.fit(np.ones((8, 4)), np.ones(8), initial_epoch=epoch, epochs=4, callbacks=[keep], verbose=0)
right = epoch == 1 and int(resumed.optimizer.iterations) == 4
print("as it should be:" if right else "wrong:", "resumed after epoch", epoch, "and trained four")
