"""`fit` with callbacks that save, restore and stop, with Keras 3 and Keras 2; all numbers exact."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from harness import StrategyCase
from scenarios.programs import margins, models

Kind = Literal["backup", "backup_batches", "model_checkpoint", "model_checkpoint_h5", "model_checkpoint_weights"]
_CHIEFS = ("worker:0", "chief:0", "local:0")
_CLASSES, _BATCH, _EPOCHS, _STEPS = 10, 16, 3, 2


def make(flavour: models.Flavour, kind: Kind) -> Callable[[Any, Any], None]:
    """Three epochs of two batches of 16, saved by a callback and resumed from what it has saved.

    `backup` is BackupAndRestore after every epoch, `backup_batches` after every third batch. `model_checkpoint` is
    ModelCheckpoint with whole models, `.keras` or `_h5`, and after an interruption the program loads the last one and
    goes on with the epoch after it; `_weights` saves weights, to which both Kerases add the optimizer's.
    """
    return functools.partial(_train, flavour=flavour, kind=kind)


def _train(strategy: Any, record: Any, *, flavour: models.Flavour, kind: Kind) -> None:
    keras = models.keras_module(flavour)
    first, model = _built(strategy, keras, record.directory, kind)
    callbacks = [_saving(keras, record.directory, kind), record.keras_callback(model)]
    model.fit(
        _dataset().repeat(),
        epochs=_EPOCHS,
        steps_per_epoch=_STEPS,
        initial_epoch=first,
        callbacks=callbacks,
        verbose=0,
    )


def _dataset() -> Any:
    return margins.dataset((_BATCH,) * _STEPS).map(lambda ids, pixels, targets, labels: (pixels[:, :8], targets))


def _hinge(targets: Any, scores: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(margins.hinge(scores, targets), axis=1)


def _model(strategy: Any, keras: Any) -> Any:
    with strategy.scope():
        inputs = keras.Input((8,))
        # Functional: variables of a Sequential model have other paths after load_model.
        model = keras.Model(inputs, keras.layers.Dense(_CLASSES, kernel_initializer="zeros")(inputs))
        model.compile(keras.optimizers.SGD(0.5, momentum=0.5), loss=_hinge)
        model.optimizer.build(model.trainable_variables)
    return model


def _built(strategy: Any, keras: Any, folder: Path, kind: Kind) -> tuple[int, Any]:
    """The epoch to begin with, and a model, or what ModelCheckpoint has saved of it last."""
    files = sorted(folder.glob("epoch-*")) if kind.startswith("model_checkpoint") else []
    if not files:
        return 0, _model(strategy, keras)
    first = int(files[-1].name.split("-")[1].partition(".")[0])
    if kind == "model_checkpoint_weights":
        model = _model(strategy, keras)
        model.load_weights(files[-1])
        return first, model
    with strategy.scope():
        model = keras.models.load_model(files[-1], custom_objects={"_hinge": _hinge})
    return first, model


def _saving(keras: Any, folder: Path, kind: Kind) -> Any:
    callbacks = keras.callbacks
    if kind.startswith("model_checkpoint"):
        weights = kind == "model_checkpoint_weights"
        suffixes = {"model_checkpoint_weights": ".weights.h5", "model_checkpoint_h5": ".h5"}
        name = "epoch-{epoch:02d}" + suffixes.get(kind, ".keras")
        return callbacks.ModelCheckpoint(str(folder / name), save_weights_only=weights)
    return callbacks.BackupAndRestore(str(folder / "backup"), save_freq=3 if kind == "backup_batches" else "epoch")


# -- What callbacks keep and restore


class _Script:
    """What a monitored score says after each epoch, and the weights there were after each batch and epoch."""

    def __init__(self, keras: Any, scores: list[float]) -> None:
        self.weights: dict[str, list[Any]] = {}
        script = self

        class Callback(keras.callbacks.Callback):  # type: ignore[misc]  # Keras is untyped
            def on_train_begin(self, logs: Any = None) -> None:
                self.batches = 0

            def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
                self.batches += 1
                script.weights[f"batch {self.batches}"] = self.model.get_weights()

            def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
                logs["score"] = scores[epoch]
                script.weights[f"epoch {epoch + 1}"] = self.model.get_weights()

        self.callback = Callback()


def _same(model: Any, wanted: list[Any]) -> bool:
    import numpy as np

    return all(np.array_equal(a, b) for a, b in zip(model.get_weights(), wanted, strict=True))


def _which(script: _Script, model: Any) -> str:
    """The batch or epoch with these weights; epochs first."""
    names = sorted(script.weights, key=lambda name: (not name.startswith("epoch"), name))
    return next((name for name in names if _same(model, script.weights[name])), "none")


def watch_saved(
    case: StrategyCase, flavour: models.Flavour, folder: Path, scores: list[float], freq: int
) -> tuple[str, dict[str, str]]:
    """`ModelCheckpoint` of the best epoch and of every `freq` batches.

    Returns:
        The epoch whose weights are in the file of the best one, and for each other file the batch whose weights it has,
        both loaded into a model outside of any scope. Nothing for workers other than the chief.
    """
    import tensorflow as tf

    keras = models.keras_module(flavour)
    strategy = case.build()
    model, script = _model(strategy, keras), _Script(keras, scores)
    best, often = folder / "best.keras", str(folder / "often-{epoch}-{batch}.weights.h5")
    model.fit(
        _dataset().repeat(),
        epochs=len(scores),
        steps_per_epoch=_STEPS,
        verbose=0,
        callbacks=[
            script.callback,
            keras.callbacks.ModelCheckpoint(str(best), monitor="score", mode="min", save_best_only=True),
            keras.callbacks.ModelCheckpoint(often, save_freq=freq, save_weights_only=True),
        ],
    )
    if os.environ["LOCKSTEP_TASK"] not in _CHIEFS:
        return "", {}  # tf_keras has the other workers write elsewhere, and removes that
    found = {}
    plain = _model(tf.distribute.get_strategy(), keras)
    for path in sorted(folder.glob("often-*")):
        plain.load_weights(path)
        found[path.name.partition(".")[0].removeprefix("often-")] = _which(script, plain)
    return _which(script, keras.models.load_model(best, custom_objects={"_hinge": _hinge})), found


def stop_at_best(case: StrategyCase, flavour: models.Flavour, scores: list[float]) -> tuple[int, str]:
    """`EarlyStopping(patience=2, restore_best_weights=True)`: the epochs done, and the epoch whose weights are left."""
    keras = models.keras_module(flavour)
    model, script = _model(case.build(), keras), _Script(keras, scores)
    stop = keras.callbacks.EarlyStopping(monitor="score", mode="min", patience=2, restore_best_weights=True)
    history = model.fit(
        _dataset().repeat(),
        epochs=len(scores),
        steps_per_epoch=_STEPS,
        verbose=0,
        callbacks=[script.callback, stop],
    )
    return len(history.epoch), _which(script, model)
