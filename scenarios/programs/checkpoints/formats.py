"""The ways to save a training state: for each one how to save it again and again, and how a script restores the latest.

Every value is computed from a step number, so that a restored state can be told to be that of step 1, of step 2, the
one which was in memory before, or garbage.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

CLOBBERED = 9
# The guard that docs/checkpoint-sweeps.md recommends is used as it stands there; examples have no type hints.
guarded_restore: Any = importlib.import_module("examples.guarded_restore")
_UNITS = 24


class Saver(SimpleNamespace):
    """One format over one set of variables.

    Attributes:
        variables: a function without arguments that returns what is saved, in a fixed order.
        save: a function of the step that saves the present values.
        restore: a function that restores the latest state; it returns a false value when it finds nothing to restore,
            as a script does that goes on from step 0.
        epoch: the epoch at which training would go on, where the format keeps one; step N is the end of epoch N.
    """

    variables: Callable[[], list[Any]]
    save: Callable[[int], Any]
    restore: Callable[[], Any]
    epoch: Callable[[], int] | None = None


def _value(variable: Any, index: int, step: int) -> Any:
    import numpy as np

    shape, dtype = tuple(variable.shape), np.dtype(getattr(variable.dtype, "as_numpy_dtype", variable.dtype))
    size = int(np.prod(shape, dtype=int))
    if dtype.kind in "iu":
        return np.full(shape, 1000 * step + index, dtype)
    # Multiples of 1/8 below 2**12: exact in float32 and different for every step, variable and element.
    return ((step * 8192 + index * 97 + np.arange(size)) / 8).astype(dtype).reshape(shape)


def fill(saver: Saver, step: int) -> None:
    """Give every variable the value that it has at this step."""
    for index, variable in enumerate(saver.variables()):
        variable.assign(_value(variable, index, step))


def identify(saver: Saver) -> int | None:
    """The step at which all variables, and the epoch, have the values that they have now; `None` for a mixture."""
    import numpy as np

    variables = saver.variables()
    for step in (1, 2, 3, CLOBBERED):
        wanted = (_value(variable, index, step) for index, variable in enumerate(variables))
        if all(np.array_equal(np.asarray(v), w) for v, w in zip(variables, wanted, strict=True)):
            epoch = 0 if step == CLOBBERED else step
            return step if saver.epoch is None or saver.epoch() == epoch else None
    return None


def build(name: str, root: Path) -> Saver:
    """The saver of this format, saving into `root`."""
    return FORMATS[name](root)


# -- tf.train.Checkpoint


def _plain() -> dict[str, Any]:
    """Variables, the slots and the counter of an optimizer, as a program keeps them that uses no Keras."""
    import tensorflow as tf

    weights = [tf.Variable(tf.zeros([_UNITS, _UNITS])), tf.Variable(tf.zeros([_UNITS]))]
    slots = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
    return {"weights": weights, "slots": slots, "iterations": tf.Variable(0, dtype=tf.int64)}


def _model(keras: Any) -> Any:
    model = keras.Sequential([keras.Input((_UNITS,)), keras.layers.Dense(_UNITS), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.125), loss="mse")
    model.optimizer.build(model.trainable_variables)
    return model


def _state_of(model: Any) -> list[Any]:
    """Weights, optimizer slots and iterations; not the learning rate, which Keras saves with the configuration."""
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    own = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    return [*model.weights, *(v for v in own if "learning_rate" not in v.name)]


def _keras(flavour: str) -> Any:
    if flavour == "tf_keras":
        import tf_keras

        return tf_keras
    import keras

    return keras


def _managed(tracked: dict[str, Any], variables: Callable[[], list[Any]], root: Path, options: Any = None) -> Saver:
    import tensorflow as tf

    checkpoint = tf.train.Checkpoint(**tracked)
    manager = tf.train.CheckpointManager(checkpoint, root, max_to_keep=1)

    def restore() -> Any:
        latest = tf.train.latest_checkpoint(root)
        if latest is not None:
            checkpoint.restore(latest).assert_consumed()
        return latest

    def save(step: int) -> None:
        manager.save(checkpoint_number=step, options=options)
        checkpoint.sync()

    return Saver(variables=variables, save=save, restore=restore)


def _manager(root: Path, *, asynchronous: bool = False) -> Saver:
    import tensorflow as tf

    state = _plain()
    options = tf.train.CheckpointOptions(
        experimental_enable_async_checkpoint=asynchronous,
        experimental_sharding_callback=None if asynchronous else tf.train.experimental.MaxShardSizePolicy(3000),
    )
    return _managed(state, lambda: tf.nest.flatten(state), root, options)


def _manager_of_model(root: Path, flavour: str) -> Saver:
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        model = _model(_keras(flavour))
    return _managed({"model": model, "optimizer": model.optimizer}, lambda: _state_of(model), root)


def _same_prefix(root: Path) -> Saver:
    import tensorflow as tf

    state = _plain()
    checkpoint, prefix = tf.train.Checkpoint(**state), root / "state"

    def restore() -> Any:
        found = Path(f"{prefix}.index").exists()
        if found:
            checkpoint.read(prefix).assert_consumed()
        return found

    return Saver(variables=lambda: tf.nest.flatten(state), save=lambda _: checkpoint.write(prefix), restore=restore)


def _state_file_first(root: Path) -> Saver:
    """Broken on purpose: the `checkpoint` file names the new checkpoint before it has been written."""
    import tensorflow as tf

    state = _plain()
    saver = _managed(state, lambda: tf.nest.flatten(state), root)
    checkpoint = tf.train.Checkpoint(**state)

    def save(step: int) -> None:
        tf.__internal__.train.update_checkpoint_state(str(root), f"ckpt-{step}", [], save_relative_paths=True)
        checkpoint.save_counter.assign(step)
        checkpoint.write(root / f"ckpt-{step}")

    return Saver(variables=saver.variables, save=save, restore=saver.restore)


# -- Keras


def _model_file(root: Path, flavour: str, name: str) -> Saver:
    """`model.save` to the same path each time, as `ModelCheckpoint` does with a path that names no epoch.

    tf_keras saves the optimizer into a SavedModel but does not load it from there, so that there only weights count.
    """
    keras = _keras(flavour)
    path = root / name
    held = {"model": _model(keras)}

    def restore() -> Any:
        if path.exists():
            held["model"] = keras.models.load_model(path)
        return path.exists()

    def variables() -> list[Any]:
        return _state_of(held["model"]) if path.suffix else list(held["model"].weights)

    return Saver(variables=variables, save=lambda _: _quiet(held["model"].save, path), restore=restore)


def _weights_file(root: Path, flavour: str, name: str) -> Saver:
    keras = _keras(flavour)
    model, path = _model(keras), root / name
    # tf_keras's TensorFlow format is several files that share this prefix.
    entry = path if path.suffix else root / f"{name}.index"

    def restore() -> Any:
        if entry.exists():
            status = model.load_weights(path)
            if status is not None:
                status.assert_consumed()
        return entry.exists()

    return Saver(variables=lambda: _state_of(model), save=lambda _: _quiet(model.save_weights, path), restore=restore)


def _guarded_file(root: Path, flavour: str, suffix: str) -> Saver:
    """The same, written through the guard that docs/checkpoint-sweeps.md recommends."""
    keras = _keras(flavour)
    held = {"model": _model(keras)}
    whole = not suffix.endswith("weights.h5")

    def save(step: int) -> None:
        write = held["model"].save if whole else held["model"].save_weights
        guarded_restore.save(lambda path: _quiet(write, path), root, step, suffix)

    def load(path: Path) -> None:
        if whole:
            held["model"] = keras.models.load_model(path)
        else:
            held["model"].load_weights(path)

    return Saver(
        variables=lambda: _state_of(held["model"]),
        save=save,
        restore=lambda: guarded_restore.restore(load, root, suffix),
    )


def _guarded_manager(root: Path) -> Saver:
    import tensorflow as tf

    state = _plain()
    checkpoint = tf.train.Checkpoint(**state)
    manager = tf.train.CheckpointManager(checkpoint, root, max_to_keep=2)
    return Saver(
        variables=lambda: tf.nest.flatten(state),
        save=lambda step: manager.save(checkpoint_number=step),
        restore=lambda: guarded_restore.restore_checkpoint(checkpoint, root),
    )


def _backup(root: Path, flavour: str, **options: Any) -> Saver:
    """`BackupAndRestore`, driven by hand: what `fit` calls at the end of an epoch and at the start of a training."""
    keras = _keras(flavour)
    model = _model(keras)

    def callback() -> Any:
        backup = keras.callbacks.BackupAndRestore(str(root), **options)
        backup.set_model(model)
        return backup

    saving = callback()
    if flavour == "tf_keras":
        saving.on_train_begin()

    def restore() -> Any:
        found = any(root.iterdir())
        callback().on_train_begin()
        return found

    def save(step: int) -> None:
        if flavour == "tf_keras":
            saving.on_epoch_begin(step - 1)
        saving.on_epoch_end(step - 1)

    def epoch() -> int:
        if flavour == "keras":
            return int(model._initial_epoch)  # noqa: SLF001 - where `fit` looks
        return int(model._maybe_load_initial_counters_from_ckpt(1, 0)[0])  # noqa: SLF001 - as `fit` does

    return Saver(variables=lambda: _state_of(model), save=save, restore=restore, epoch=epoch)


def _quiet(save: Callable[[Path], Any], path: Path) -> None:
    """Keras warns about its own `.h5` format."""
    import warnings

    with warnings.catch_warnings(), contextlib.suppress(FileExistsError):
        warnings.simplefilter("ignore")
        save(path)


# Formats whose new state replaces the old one in one step.
ATOMIC: dict[str, Callable[[Path], Saver]] = {
    "CheckpointManager": _manager,
    "CheckpointManager, asynchronous": lambda root: _manager(root, asynchronous=True),
    "CheckpointManager, Keras 3, mirrored": lambda root: _manager_of_model(root, "keras"),
    "CheckpointManager, tf_keras, mirrored": lambda root: _manager_of_model(root, "tf_keras"),
    "tf_keras BackupAndRestore": lambda root: _backup(root, "tf_keras"),
    "guarded CheckpointManager": _guarded_manager,
    "guarded Keras 3 .keras": lambda root: _guarded_file(root, "keras", ".keras"),
    "guarded Keras 3 .weights.h5": lambda root: _guarded_file(root, "keras", ".weights.h5"),
    "guarded tf_keras .h5": lambda root: _guarded_file(root, "tf_keras", ".h5"),
}
# Formats that write over the old state when they are given the same path again.
IN_PLACE: dict[str, Callable[[Path], Saver]] = {
    "Checkpoint.write": _same_prefix,
    "Keras 3 .keras": lambda root: _model_file(root, "keras", "model.keras"),
    "Keras 3 .weights.h5": lambda root: _weights_file(root, "keras", "model.weights.h5"),
    "Keras 3 BackupAndRestore, double": lambda root: _backup(root, "keras", double_checkpoint=True),
    "Keras 3 BackupAndRestore": lambda root: _backup(root, "keras"),
    "tf_keras .keras": lambda root: _model_file(root, "tf_keras", "model.keras"),
    "tf_keras .h5": lambda root: _model_file(root, "tf_keras", "model.h5"),
    "tf_keras SavedModel": lambda root: _model_file(root, "tf_keras", "model"),
    "tf_keras save_weights": lambda root: _weights_file(root, "tf_keras", "weights"),
}
BROKEN: dict[str, Callable[[Path], Saver]] = {"state file first": _state_file_first}
FORMATS = {**ATOMIC, **IN_PLACE, **BROKEN}
