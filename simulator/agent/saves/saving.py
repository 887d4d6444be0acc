"""Which functions of TensorFlow and Keras save and restore, instrumented in a process that has just imported them.

The methods and modules are those of TensorFlow 2.16 to 2.21, Keras 3 and tf_keras. What one of them lacks is left out.
"""

from __future__ import annotations

from typing import Any

from simulator.agent.saves.saves import SaveFunction, hand_over, in_background, instrument


def checkpoints(module: Any) -> None:
    """`tf.train.Checkpoint`, in eager code and in graphs of TensorFlow 1, and the object that both leave the work to.

    `save` and `write` call `_write`, which calls `TrackableSaver.save` and then, by callbacks, writes the file
    `checkpoint`. `restore` calls `read`, which calls `TrackableSaver.restore`.
    """
    for name, kind in (("Checkpoint", "tf.train.Checkpoint"), ("CheckpointV1", "tf.compat.v1.train.Checkpoint")):
        if (owner := getattr(module, name, None)) is None:
            continue
        instrument(owner, "save", SaveFunction(f"{kind}.save", 1, "file_prefix"))
        for function in ("write", "_write"):
            leaves = function == "_write"
            saving = SaveFunction(f"{kind}.write", 1, "file_prefix", sure=True, final=True, leaves=leaves)
            instrument(owner, function, saving)
        for function in ("restore", "read"):
            instrument(owner, function, SaveFunction(f"{kind}.{function}", 1, "save_path", restores=True, final=True))
    saver = module.TrackableSaver
    instrument(saver, "save", SaveFunction("TrackableSaver.save", 1, "file_prefix", sure=True, final=True, enters=True))
    saving = SaveFunction("TrackableSaver.restore", 1, "save_path", restores=True, sure=True, final=True, enters=True)
    instrument(saver, "restore", saving)


def managers(module: Any) -> None:
    """`tf.train.CheckpointManager`, which also decides whether there is anything to do."""
    kind = "tf.train.CheckpointManager"
    instrument(module.CheckpointManager, "save", SaveFunction(f"{kind}.save"))
    function = "restore_or_initialize"
    instrument(module.CheckpointManager, function, SaveFunction(f"{kind}.{function}", restores=True))


def async_checkpoints(module: Any) -> None:
    """`CheckpointOptions(enable_async=True)`: the call copies the variables, and a thread writes them."""
    for function in ("save", "_write"):
        hand_over(module.AsyncCheckpointHelper, function)
    in_background(module.AsyncCheckpointHelper, "_async_save")


def saved_models(module: Any) -> None:
    """`tf.saved_model.save` and `load`, through the functions that also the Kerases call."""
    saving = SaveFunction("tf.saved_model.save", 1, "export_dir", sure=True, final=True, enters=True, leaves=True)
    instrument(module, "save_and_return_nodes", saving)
    saving = SaveFunction("tf.saved_model.load", 0, "export_dir", restores=True, sure=True, final=True, enters=True)
    instrument(module, "load_partial", saving)


def keras_models(module: Any) -> None:
    """The methods of `Model`; the callbacks ModelCheckpoint and BackupAndRestore save through them."""
    package = module.__name__.partition(".")[0]
    for function in ("save", "save_weights"):
        instrument(module.Model, function, _of_keras(f"{package}.Model.{function}", 1))
    instrument(module.Model, "load_weights", _of_keras(f"{package}.Model.load_weights", 1, restores=True))


def keras_functions(module: Any) -> None:
    """`keras.saving.load_model` and its like."""
    package = module.__name__.partition(".")[0]
    for function in ("save_model", "save_weights"):
        instrument(module, function, _of_keras(f"{package}.saving.{function}", 1))
    instrument(module, "load_model", _of_keras(f"{package}.saving.load_model", 0, restores=True))
    instrument(module, "load_weights", _of_keras(f"{package}.saving.load_weights", 1, restores=True))


def _of_keras(kind: str, place: int, *, restores: bool = False) -> SaveFunction:
    return SaveFunction(
        kind, place, "filepath", restores=restores, sure=True, final=True, enters=True, leaves=not restores
    )
