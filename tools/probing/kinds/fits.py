"""Options of `compile`, `fit`, `evaluate` and `predict`, callbacks and kinds of data, each on a small model."""

from __future__ import annotations

import csv
import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tools.probing.kinds.protocol import Form, Keras, Kind

_BATCH, _EXAMPLES, _EPOCHS = 8, 32, 3


class _Use(NamedTuple):
    """A way to train a model.

    Attributes:
        compiled: options of `compile`, made below the scope.
        fitted: options of `fit`.
        data: of the plain arrays makes what `fit` is given.
        callbacks: makes them, given a directory.
        layers: between the first and the last one.
    """

    compiled: Callable[[Keras], dict[str, Any]] = lambda keras: {}
    fitted: Mapping[str, Any] = {}
    data: Callable[[Keras, Any, Any, Any], Any] = lambda keras, x, y, weights: _dataset(x, y)
    callbacks: Callable[[Keras, Path], list[Any]] = lambda keras, place: []
    layers: Callable[[Keras], list[Any]] = lambda keras: []


def _dataset(*arrays: Any) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices(arrays).batch(_BATCH)


def _endless(keras: Keras, x: Any, y: Any, weights: Any) -> Any:
    return _dataset(x, y).repeat()


def _sequence(keras: Keras, x: Any, y: Any, weights: Any) -> Any:
    base = getattr(keras.utils, "PyDataset", None) or keras.utils.Sequence

    class Batches(base):  # type: ignore[valid-type,misc]
        def __len__(self) -> int:
            return _EXAMPLES // _BATCH

        def __getitem__(self, index: int) -> Any:
            rows = slice(index * _BATCH, (index + 1) * _BATCH)
            return x[rows].copy(), y[rows].copy()

    return Batches()


def _optimizer(name: str, **options: Any) -> Callable[[Keras], dict[str, Any]]:
    return lambda keras: {"optimizer": getattr(keras.optimizers, name)(0.1, **options)}


def _regularized(keras: Keras) -> list[Any]:
    return [keras.layers.Dense(4, kernel_regularizer="l2")]


def _callback(name: str, *args: Any, **options: Any) -> Callable[[Keras, Path], list[Any]]:
    return lambda keras, place: [getattr(keras.callbacks, name)(*args, **options)]


def _checkpoint(**options: Any) -> Callable[[Keras, Path], list[Any]]:
    return lambda keras, place: [keras.callbacks.ModelCheckpoint(str(place / "best.weights.h5"), **options)]


_USES: dict[str, _Use] = {
    "fit": _Use(),
    "arrays": _Use(data=lambda keras, x, y, weights: (x, y), fitted={"batch_size": _BATCH, "shuffle": False}),
    "sample_weight": _Use(
        lambda keras: {"weighted_metrics": ["mae"]}, data=lambda keras, x, y, weights: _dataset(x, y, weights)
    ),
    "class_weight": _Use(fitted={"class_weight": {0: 1.0, 1: 3.0}}),
    "validation": _Use(lambda keras: {"metrics": ["mae"]}, {"validation": True}),
    "validation_freq": _Use(fitted={"validation": True, "validation_freq": 2}),
    "validation_steps": _Use(fitted={"validation": True, "validation_steps": 2}),
    "initial_epoch": _Use(fitted={"initial_epoch": 1}),
    "endless": _Use(fitted={"steps_per_epoch": 3}, data=_endless),
    "sequence": _Use(data=_sequence, fitted={"shuffle": False}),
    "run_eagerly": _Use(lambda keras: {"run_eagerly": True}),
    "steps_per_execution": _Use(lambda keras: {"steps_per_execution": 2}),
    "weight_decay": _Use(_optimizer("AdamW", weight_decay=0.1)),
    "ema": _Use(_optimizer("SGD", use_ema=True, ema_momentum=0.5)),
    "global_clipnorm": _Use(_optimizer("SGD", global_clipnorm=0.05)),
    "schedule": _Use(
        lambda keras: {"optimizer": keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5))}
    ),
    "regularizer": _Use(layers=_regularized),
    "batch_normalization": _Use(layers=lambda keras: [keras.layers.BatchNormalization(synchronized=True)]),
    "metrics": _Use(lambda keras: {"metrics": [keras.metrics.AUC(), keras.metrics.TruePositives(), "accuracy"]}),
    "LearningRateScheduler": _Use(callbacks=_callback("LearningRateScheduler", lambda epoch, rate: rate * 0.5)),
    "ReduceLROnPlateau": _Use(callbacks=_callback("ReduceLROnPlateau", "loss", patience=0, min_delta=10.0)),
    "EarlyStopping": _Use(
        callbacks=_callback("EarlyStopping", "loss", min_delta=10.0, patience=1, restore_best_weights=True)
    ),
    "TerminateOnNaN": _Use(callbacks=_callback("TerminateOnNaN")),
    "ModelCheckpoint": _Use(callbacks=_checkpoint(save_best_only=True, monitor="loss", save_weights_only=True)),
    "ModelCheckpoint:save_freq": _Use(callbacks=_checkpoint(save_freq=3, save_weights_only=True)),
    "BackupAndRestore": _Use(callbacks=lambda keras, place: [keras.callbacks.BackupAndRestore(str(place / "backup"))]),
    "CSVLogger": _Use(callbacks=lambda keras, place: [keras.callbacks.CSVLogger(str(place / "log.csv"))]),
    "TensorBoard": _Use(callbacks=lambda keras, place: [keras.callbacks.TensorBoard(str(place / "logs"))]),
    "SidecarEvaluatorModelExport": _Use(
        callbacks=lambda keras, place: [
            keras.callbacks.ModelCheckpoint(str(place / "ckpt-{epoch}"), save_weights_only=True),
            keras.callbacks.SidecarEvaluatorModelExport(
                str(place / "best.weights.h5"),
                str(place / "ckpt-{epoch}"),
                monitor="val_loss",
                mode="min",
                save_weights_only=True,
            ),
        ],
        fitted={"validation": True},
    ),
    "SwapEMAWeights": _Use(_optimizer("SGD", use_ema=True, ema_momentum=0.5), callbacks=_callback("SwapEMAWeights")),
}


def _forms(keras: Keras) -> dict[str, Form]:
    """All but those of callbacks that this Keras lacks; they are given no inputs."""
    return {
        name: Form("", functools.partial(_used, name=name))
        for name in _USES
        if name[0].islower() or hasattr(keras.callbacks, name.partition(":")[0])
    }


def _used(keras: Keras, name: str) -> dict[str, Any]:
    """Train, evaluate and predict; all numbers that a user gets."""
    import numpy as np

    use = _USES[name]
    random = np.random.default_rng(0)
    x = random.uniform(0, 1, (_EXAMPLES, 3)).astype(np.float32)
    y = (x.sum(axis=1, keepdims=True) > 1.5).astype(np.float32)
    weights = random.uniform(0.1, 2, _EXAMPLES).astype(np.float32)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh"),
            *use.layers(keras),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    compiled = use.compiled(keras)
    model.compile(compiled.pop("optimizer", None) or keras.optimizers.SGD(0.1), "binary_crossentropy", **compiled)
    fitted = dict(use.fitted)
    if fitted.pop("validation", False):
        fitted["validation_data"] = _dataset(x[:24], y[:24])
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        data = use.data(keras, x, y, weights)
        given = data if isinstance(data, tuple) else (data,)
        callbacks = use.callbacks(keras, Path(place))
        history = model.fit(*given, epochs=_EPOCHS, verbose=0, callbacks=callbacks, **fitted).history
        found |= {f"{name}/{key}": np.asarray(values, np.float64) for key, values in history.items()}
        found |= {f"{name}/weight{index}": value for index, value in enumerate(model.get_weights())}
        found[f"{name}/evaluated"] = np.asarray(model.evaluate(_dataset(x, y), verbose=0))
        found[f"{name}/predicted"] = model.predict(_dataset(x), verbose=0)
        if (saved := Path(place, "best.weights.h5")).exists():
            model.load_weights(str(saved))
            found |= {f"{name}/saved{index}": value for index, value in enumerate(model.get_weights())}
        if (log := Path(place, "log.csv")).exists():
            rows = list(csv.reader(log.open()))[1:]
            # tf_keras has NA where an epoch has no value.
            numbers = [[cell.replace("NA", "nan") for cell in row] for row in rows]
            found[f"{name}/log"] = np.nan_to_num(np.asarray(numbers, np.float64), nan=-1.0)
    return found


def _train(strategy: Any, record: Any, keras: Keras, forms: Mapping[str, Form]) -> None:
    for form in forms.values():
        keras.utils.set_random_seed(1)
        with strategy.scope():
            found = form.make(keras)
        record.step(metrics=found)


KIND = Kind(
    module="callbacks",
    bases=frozenset({"Callback", "CallbackList", "History", "BaseLogger", "ProgbarLogger", "LambdaCallback"}),
    forms=_forms,
    circumstances=("even",),
    issues=[
        ("keras/*", "keras3-fit-multi-worker"),
        ("keras/steps_per_execution", "keras3-fit-steps-per-execution"),
        ("keras/global_clipnorm", "keras3-clip-before-reduction"),
        ("keras/*", "keras3-central-storage-metrics"),
        *(
            (f"keras/{form}", "keras3-central-storage-own-state")
            for form in ("SwapEMAWeights", "batch_normalization", "ema")
        ),
        ("tf_keras/schedule", "tf-keras-central-storage-schedule"),
        ("tf_keras/ModelCheckpoint*", "tf-keras-load-weights-metrics"),
        ("tf_keras/SidecarEvaluatorModelExport", "tf-keras-load-weights-metrics"),
    ],
    documented=[("tf_keras/BackupAndRestore/central_storage-*", "it is not supported there")],
    train=_train,
    unmade={"RemoteMonitor": "it posts to a server", "OrbaxCheckpoint": "it needs Orbax, which is not installed"},
)
