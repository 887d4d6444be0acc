"""The callback behind `record.keras_callback`, one class body for Keras 3 and for tf_keras."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_CALL = "record.keras_callback"
_FLAVOURS = ("tf_keras", "keras")


@dataclass(frozen=True)
class Reports:
    """What the callback has of the recorder.

    Attributes:
        strategy: of this run.
        step: as `record.step`, in the name of a `call`.
        final: as `record.final`, in the name of a `call`.
        silently: a context in which what is computed is no part of the program.
    """

    strategy: Any
    step: Callable[..., None]
    final: Callable[..., None]
    silently: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext


def make_callback(record: Reports, model: Any) -> Any:
    """A callback of the same Keras flavour as `model`."""
    import tensorflow as tf

    per_epoch = isinstance(record.strategy, tf.distribute.ParameterServerStrategy)
    body = _per_epoch_body(record) if per_epoch else _per_batch_body(record)
    return type("LockstepCallback", (callback_class(model),), body)()


def callback_class(model: Any) -> type:
    """That of the Keras of a model."""
    if _flavour(model) == "tf_keras":
        import tf_keras

        return tf_keras.callbacks.Callback  # type: ignore[no-any-return]
    import keras

    return keras.callbacks.Callback  # type: ignore[no-any-return]


def _flavour(model: Any) -> str:
    """The Keras whose Model this is, also when the model is of a class defined by the user."""
    packages = {kind.__module__.partition(".")[0] for kind in type(model).__mro__}
    found = next((name for name in _FLAVOURS if name in packages), None)
    if found is None:
        raise TypeError(f"{type(model).__name__} is neither a Keras 3 nor a tf_keras model")
    return found


def _variables(model: Any) -> list[Any]:
    optimizer = model.optimizer
    slots = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    return [*model.variables, *slots]


def _of_training(logs: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (logs or {}).items() if not name.startswith("val_")}


def _metrics(record: Reports, model: Any, logs: dict[str, Any] | None) -> dict[str, Any]:
    """The loss and the metrics of training so far, as `fit` logs them after an epoch.

    What it gives callbacks after a batch it has of the replicas' own results: Keras 3 averages these, and tf_keras adds
    them up over workers (`keras3-fit-batch-logs`, `tf-keras-fit-batch-logs-times-workers` of the known issues). What a
    `train_step` of the program's own gives back is known by the logs only.
    """
    logs = _of_training(logs)
    if model.train_step.__module__.partition(".")[0] not in _FLAVOURS:
        return logs
    with record.silently():
        held = model.get_metrics_result()
    return {**logs, **{name: value for name, value in held.items() if name in logs}}


def _report(record: Reports, model: Any, logs: dict[str, Any] | None, epoch: int, *, per_epoch: bool) -> None:
    logs = _of_training(logs) if per_epoch else _metrics(record, model, logs)
    loss = logs.pop("loss", None)
    record.step(
        call=_CALL,
        loss=loss,
        gradients=None,
        variables=_variables(model),
        examples=None,
        metrics=logs or None,
        epoch=epoch,
        per_epoch=per_epoch,
        logged=_flavour(model),
        # What the logs are running means of.
        means=[variable for metric in model.metrics for variable in metric.variables],
    )


def _final(record: Reports, model: Any, last_logs: dict[str, Any]) -> None:
    validation = {name: value for name, value in last_logs.items() if name.startswith("val_")}
    record.final(call=_CALL, variables=_variables(model), metrics=validation or None)


def _per_batch_body(record: Reports) -> dict[str, Any]:
    state: dict[str, Any] = {"epoch": 0, "logs": {}}

    def on_epoch_begin(self: Any, epoch: int, logs: dict[str, Any] | None = None) -> None:
        state["epoch"] = epoch

    def on_train_batch_end(self: Any, batch: int, logs: dict[str, Any] | None = None) -> None:
        _report(record, self.model, logs, state["epoch"], per_epoch=False)

    def on_epoch_end(self: Any, epoch: int, logs: dict[str, Any] | None = None) -> None:
        state["logs"] = dict(logs or {})

    def on_train_end(self: Any, logs: dict[str, Any] | None = None) -> None:
        _final(record, self.model, state["logs"])

    return {
        "on_epoch_begin": on_epoch_begin,
        "on_train_batch_end": on_train_batch_end,
        "on_epoch_end": on_epoch_end,
        "on_train_end": on_train_end,
    }


def _per_epoch_body(record: Reports) -> dict[str, Any]:
    state: dict[str, Any] = {"logs": {}}

    def on_epoch_end(self: Any, epoch: int, logs: dict[str, Any] | None = None) -> None:
        state["logs"] = dict(logs or {})
        _report(record, self.model, logs, epoch, per_epoch=True)

    def on_train_end(self: Any, logs: dict[str, Any] | None = None) -> None:
        _final(record, self.model, state["logs"])

    return {"on_epoch_end": on_epoch_end, "on_train_end": on_train_end}
