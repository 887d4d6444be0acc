"""Keras 3 opens the old file for writing first: a save that fails or is killed leaves neither state."""

import os
import pathlib
import tempfile

import keras

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
path = pathlib.Path(tempfile.mkdtemp(), "model.keras")
model.save(path)
if os.fork() == 0:  # a child that dies as soon as the save has opened the file
    import zipfile

    zipfile.ZipFile.open = lambda *args, **options: os._exit(9)
    model.save(path)
os.wait()
try:
    keras.models.load_model(path)
except ValueError as error:
    print("wrong: the old state is gone,", path.stat().st_size, "bytes are left:", str(error)[:60])
