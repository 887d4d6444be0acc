"""A save beside the old file, which is renamed when it is whole: one of the two states is there at any time."""

import os
import pathlib
import tempfile
import warnings

import tf_keras


def save(model, path):
    new = path.with_name(f"new-{path.name}")
    model.save(new)
    os.replace(new, path)


warnings.simplefilter("ignore")
model = tf_keras.Sequential([tf_keras.Input((4,)), tf_keras.layers.Dense(4)])
path = pathlib.Path(tempfile.mkdtemp(), "model.h5")
save(model, path)
kernel = model.get_weights()[0]
if os.fork() == 0:  # a child that dies as soon as the save has opened the file
    import h5py

    h5py.Group.create_group = lambda *args, **kwargs: os._exit(9)
    save(model, path)
_, ended = os.wait()
loaded = tf_keras.models.load_model(path).get_weights()[0]
right = os.waitstatus_to_exitcode(ended) == 9 and (loaded == kernel).all()
print("as it should be:" if right else "wrong:", "the save was cut short, and the old state can be loaded")
