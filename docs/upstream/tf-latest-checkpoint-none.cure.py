"""The newest checkpoint by the names of the files; an error, where files of checkpoints are there and none is whole."""

import pathlib
import re
import tempfile

import tensorflow as tf


def latest(folder):
    states = {int(re.findall(r"ckpt-(\d+)\.", path.name)[0]): path for path in folder.glob("ckpt-*")}
    for number in sorted(states, reverse=True):
        if (folder / f"ckpt-{number}.index").exists():
            return str(folder / f"ckpt-{number}")
    if states or (folder / "checkpoint").exists():
        raise FileNotFoundError(f"no checkpoint in {folder} is whole, and it is not empty")
    return None


for lost in ("checkpoint", "ckpt-1.index"):
    folder, step = pathlib.Path(tempfile.mkdtemp()), tf.Variable(7)
    checkpoint = tf.train.Checkpoint(step=step)
    tf.train.CheckpointManager(checkpoint, folder, max_to_keep=1).save()
    (folder / lost).unlink()
    step.assign(0)
    try:
        checkpoint.restore(latest(folder)).assert_existing_objects_matched()
        print("as it should be:" if step.numpy() == 7 else "wrong:", f"without {lost} the step is", step.numpy())
    except FileNotFoundError as error:
        print("as it should be:" if lost == "ckpt-1.index" else "wrong:", f"without {lost}:", str(error)[:13])
