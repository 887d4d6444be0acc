"""Every format, saved under one strategy and loaded under another, inside and outside of its scope."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import StrategyCase
from scenarios.programs import models
from scenarios.programs.checkpointing import bits


@dataclass(frozen=True)
class Format:
    """How a model is saved and loaded.

    Attributes:
        keeps: what is restored with it: of `weights`, `slots` (with the counter and the learning rate) and
            `predictions`; no format keeps the `seeds` of Keras 3 layers that draw random numbers.
        save: a function of the model and the path.
        load: a function of the model as the program has built it anew, and of the path; it returns the model to use.
        whole: whether it makes a model of its own, rather than filling the one given.
    """

    keeps: tuple[str, ...]
    save: Callable[[Any, Path], Any]
    load: Callable[[Any, Path], Any]
    whole: bool = False


@dataclass(frozen=True)
class Saved:
    """One format saved under one strategy: seconds, or the error's class and message."""

    seconds: float
    error: str = ""


@dataclass(frozen=True)
class Loaded:
    """One format loaded under one strategy.

    Attributes:
        strategy: under which it was saved.
        format: its name.
        inside: whether it was loaded in the scope.
        seconds: it took to load, without building the model.
        wrong: of `weights`, `slots`, `seeds` and `predictions` those that are not, bit for bit, what was saved, each
            with the first value that differs.
        error: the class and message of what was raised.
    """

    strategy: str
    format: str
    inside: bool
    seconds: float
    wrong: dict[str, str]
    error: str = ""


def save(case: StrategyCase, flavour: models.Flavour, root: Path) -> dict[str, Saved]:
    """Save a model with these values in all formats; every client calls it, what the chief writes counts."""
    strategy = case.build()
    with strategy.scope():
        model = _model(flavour)
    _fill(_state(model))
    chief = getattr(strategy.cluster_resolver, "task_id", 0) in (0, None) or case.kind == "parameter_server"
    root = root if chief else root / "not-the-chief"
    root.mkdir(exist_ok=True)
    bits.write(root / "values.npz", {**bits.read(strategy, _state(model)), "predictions": [_predictions(model)]})
    saved = {}
    for name, form in FORMATS[flavour].items():
        began, error = time.monotonic(), ""
        try:
            _quiet(form.save, model, root / _file(name))
        except Exception as raised:  # noqa: BLE001 - what is raised is the result
            error = f"{type(raised).__name__}: {raised}"
        saved[name] = Saved(time.monotonic() - began, error)
    return saved


def load(case: StrategyCase, flavour: models.Flavour, saved: dict[str, tuple[Path, set[str]]]) -> list[Loaded]:
    """Load each format again, over garbage: by the strategy that saved them, folder and names of formats."""
    strategy = case.build()
    with strategy.scope():
        model = _model(flavour)
    return [
        _load(strategy, model, form, folder / _file(name), (saved_under, name), inside=inside)
        for saved_under, (folder, names) in saved.items()
        for name, form in FORMATS[flavour].items()
        for inside in (True, False)
        if name in names
    ]


def _load(strategy: Any, model: Any, form: Format, path: Path, named: tuple[str, str], *, inside: bool) -> Loaded:
    bits.clobber(_state(model))
    began, error, wrong = time.monotonic(), "", {}
    try:
        with strategy.scope() if inside else contextlib.nullcontext():
            loaded = _quiet(form.load, model, path)
        seconds = time.monotonic() - began
        wrong = _wrong(strategy, loaded, path.parent / "values.npz", form.whole and not inside)
    except Exception as raised:  # noqa: BLE001 - what is raised is the result
        error, seconds = f"{type(raised).__name__}: {raised}", time.monotonic() - began
    return Loaded(*named, inside, seconds, wrong, error)


def _wrong(strategy: Any, loaded: Any, values: Path, plain: bool) -> dict[str, str]:
    import tensorflow as tf

    found = {"predictions": [_predictions(loaded)]}
    if hasattr(loaded, "optimizer"):
        strategy = tf.distribute.get_strategy() if plain else strategy
        found |= bits.read(strategy, _state(loaded))
    wrong: dict[str, str] = {}
    for name, count in bits.differing(values, found).items():
        if count:
            wrong.setdefault(name.partition("/")[0], name)
    return wrong


def _file(name: str) -> str:
    return name.partition(" ")[0].replace("*", "saved")


# -- The model


def _model(flavour: models.Flavour) -> Any:
    keras = models.keras_module(flavour)
    layers = keras.layers
    stack = [
        layers.Dense(6, name="first"),
        layers.BatchNormalization(name="normalized"),
        layers.Dropout(0.5, seed=3, name="dropped"),
        layers.Dense(2, name="last"),
    ]
    model = keras.Sequential([keras.Input((8,)), *stack], name="model")
    model.compile(keras.optimizers.Adam(0.125), keras.losses.MeanSquaredError())
    model.optimizer.build(model.trainable_variables)
    return model


def _state(model: Any) -> dict[str, Any]:
    """Everything that a training of this model goes on from."""
    slots = {f"slots/{name}": variable for name, variable in bits.variables_of(model.optimizer).items()}
    if not hasattr(model.weights[0], "path"):  # Keras 2, whose weights may be in shards
        found = bits.variables_of(model).items()
        return {f"weights/{name}": weight for name, weight in found if not name.startswith("optimizer")} | slots
    known = {id(weight) for weight in model.weights}
    seeds = [variable.value for variable in model.variables if id(variable) not in known]
    weights = {f"weights/{number}": weight.value for number, weight in enumerate(model.weights)}
    return weights | slots | {f"seeds/{number}": seed for number, seed in enumerate(seeds)}


def _fill(state: dict[str, Any]) -> None:
    """Positive multiples of 1/8, other ones in every variable, shards as the whole."""
    import numpy as np

    for index, variable in enumerate(state.values()):
        begin = 0
        for shard in getattr(variable, "variables", [variable]):
            size = int(np.prod(shard.shape, dtype=int))
            values = (np.arange(begin, begin + size) * 5 + index * 3) % 32 + 1
            dtype = shard.dtype.as_numpy_dtype
            shard.assign((values / (8 if np.dtype(dtype).kind == "f" else 1)).astype(dtype).reshape(shard.shape))
            begin += size


def _predictions(model: Any) -> Any:
    import numpy as np
    import tensorflow as tf

    inputs = tf.constant(np.arange(24).reshape(3, 8) % 7 - 3, tf.float32)
    if hasattr(model, "serve"):
        return model.serve(inputs).numpy()
    return model(inputs, training=False).numpy()


# -- The formats


def _quiet(call: Callable[..., Any], *args: Any) -> Any:
    """Keras warns about its own older formats."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(*args)


def _checkpoint(model: Any) -> Any:
    import tensorflow as tf

    return tf.train.Checkpoint(model=model, optimizer=model.optimizer)


def _write(model: Any, path: Path) -> None:
    _checkpoint(model).write(path)


def _save_asynchronously(model: Any, path: Path) -> None:
    import tensorflow as tf

    checkpoint = _checkpoint(model)
    checkpoint.save(path, options=tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True))
    checkpoint.sync()


def _restore(model: Any, path: Path) -> Any:
    _checkpoint(model).restore(f"{path}-1").assert_consumed()
    return model


def _read(model: Any, path: Path) -> Any:
    _checkpoint(model).read(path).assert_consumed()
    return model


def _save_model(model: Any, path: Path) -> None:
    model.save(path)


def _save_weights(model: Any, path: Path) -> None:
    model.save_weights(path)


def _load_weights(model: Any, path: Path) -> Any:
    status = model.load_weights(path)
    if status is not None:
        status.assert_consumed()
    return model


def _load_keras3(_: Any, path: Path) -> Any:
    return models.keras_module("keras").models.load_model(path)


def _load_tf_keras(_: Any, path: Path) -> Any:
    return models.keras_module("tf_keras").models.load_model(path)


def _export(model: Any, path: Path) -> None:
    model.export(path)


def _load_exported(_: Any, path: Path) -> Any:
    import tensorflow as tf

    return tf.saved_model.load(path)


_BOTH = ("weights", "slots", "predictions")
_TRAINED = ("weights", "predictions")
_KERAS_3 = {
    "plain (tf.train.Checkpoint)": Format(_BOTH, _write, _read),
    "async (tf.train.Checkpoint, asynchronous)": Format(_BOTH, _save_asynchronously, _restore),
    "*.keras": Format(_BOTH, _save_model, _load_keras3, whole=True),
    "*.weights.h5": Format(_BOTH, _save_weights, _load_weights),
    # The slots are lost, see keras3-h5-optimizer-state.
    "*.h5": Format(_TRAINED, _save_model, _load_keras3, whole=True),
    "exported (export)": Format(("predictions",), _export, _load_exported, whole=True),
}
_KERAS_2 = {
    "plain (tf.train.Checkpoint)": Format(_BOTH, _write, _read),
    "async (tf.train.Checkpoint, asynchronous)": Format(_BOTH, _save_asynchronously, _restore),
    "model (SavedModel)": Format(_TRAINED, _save_model, _load_tf_keras, whole=True),
    "*.keras": Format(_BOTH, _save_model, _load_tf_keras, whole=True),
    "*.h5": Format(_BOTH, _save_model, _load_tf_keras, whole=True),
    "weights (TensorFlow format)": Format(_BOTH, _save_weights, _load_weights),
    "*.weights.h5": Format(_TRAINED, _save_weights, _load_weights),
    "exported (export)": Format(("predictions",), _export, _load_exported, whole=True),
}
FORMATS: dict[models.Flavour, dict[str, Format]] = {"keras": _KERAS_3, "tf_keras": _KERAS_2}
