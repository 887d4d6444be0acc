"""Optimizers with their options, on a matrix and a table of rows whose gradients are sparse."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tools.probing.kinds.protocol import Form, Keras, Kind

_OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    ":clipnorm": {"clipnorm": 0.05},
    ":clipvalue": {"clipvalue": 0.01},
    ":global_clipnorm": {"global_clipnorm": 0.05},
    ":weight_decay": {"weight_decay": 0.1},
    ":ema": {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
    ":accumulation": {"gradient_accumulation_steps": 2},
    ":loss_scale": {},
    ":schedule": {},
}
_AROUND_OTHERS = {"LossScaleOptimizer", "MultiOptimizer", "OptimizerMap"}
_BASES = frozenset({"Optimizer", "TFOptimizer", "KerasOptimizer"} | _AROUND_OTHERS)
# A whole class of its own: options of other optimizers.
_WITHOUT_DECAY = ("AdamW", "ScheduleFreeAdamW", "Muon")


def _forms(keras: Keras) -> dict[str, Form]:
    names = [
        name
        for name in dir(keras.optimizers)
        if isinstance(kind := getattr(keras.optimizers, name), type)
        and issubclass(kind, keras.optimizers.Optimizer)
        and name not in _BASES
    ]
    forms = {
        name + way: Form("vector", functools.partial(_make, name=name, way=way), public="" if way else name)
        for name in sorted(names)
        for way in _OPTIONS
        if not (way == ":weight_decay" and name in _WITHOUT_DECAY)
        and not (way == ":accumulation" and keras.__name__ == "tf_keras")
    }
    if keras.__name__ == "tf_keras":
        for name in ("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "RMSprop", "SGD"):
            forms[f"legacy.{name}"] = Form("vector", functools.partial(_make_legacy, name=name))
    if hasattr(keras.optimizers, "MultiOptimizer"):
        forms["MultiOptimizer"] = Form("vector", _make_several)
    return forms


def _make(keras: Keras, name: str, way: str, **options: Any) -> Any:
    rate: Any = 0.1
    if way == ":schedule":
        rate = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    optimizer = getattr(keras.optimizers, name)(rate, **_OPTIONS[way], **options)
    if way != ":loss_scale":
        return optimizer
    kinds = keras.optimizers if hasattr(keras.optimizers, "LossScaleOptimizer") else keras.mixed_precision
    return kinds.LossScaleOptimizer(optimizer)


def _make_several(keras: Keras) -> Any:
    """An optimizer for the table, and another one for what else there is."""
    kinds = keras.optimizers
    return kinds.MultiOptimizer(kinds.OptimizerMap(kinds.SGD(0.1), {".*embeddings": kinds.Adam(0.1)}))


def _make_legacy(keras: Keras, name: str) -> Any:
    return getattr(keras.optimizers.legacy, name)(0.1)


class _Work:
    """Each optimizer has a matrix and a table of its own."""

    inputs = ("vector", "tokens")

    def __init__(self, keras: Keras, forms: Mapping[str, Form], rows: int) -> None:
        self._rows = rows
        self._optimizers = {name: form.make(keras) for name, form in forms.items()}
        self._parts = {}
        for name in forms:
            dense, table = keras.layers.Dense(4), keras.layers.Embedding(8, 4)
            dense.build((None, 8))
            table.build((None, 6))
            self._parts[name] = dense, table
            if hasattr(self._optimizers[name], "build"):
                self._optimizers[name].build(dense.trainable_variables + table.trainable_variables)

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """The loss for each optimizer, and its gradients."""
        import tensorflow as tf

        found, gradients = {}, {}
        for name, optimizer in self._optimizers.items():
            dense, table = self._parts[name]
            weights = dense.trainable_variables + table.trainable_variables
            with tf.GradientTape() as tape:
                outputs = dense(batch["vector"]) + tf.reduce_sum(table(batch["tokens"]), axis=1)
                found[name] = tf.nn.compute_average_loss(
                    tf.reduce_sum(tf.sin(outputs), axis=1), global_batch_size=self._rows
                )
                loss = found[name]
                if hasattr(optimizer, "scale_loss"):
                    loss = optimizer.scale_loss(loss)
                elif hasattr(optimizer, "get_scaled_loss"):
                    loss = optimizer.get_scaled_loss(loss)
            gradients[name] = tape.gradient(loss, weights)
        return found, gradients

    def update(self, gradients: Any) -> None:
        """One update by each optimizer."""
        for name, optimizer in self._optimizers.items():
            weights = [weight for layer in self._parts[name] for weight in layer.trainable_variables]
            of_weights = gradients[name]
            if hasattr(optimizer, "get_unscaled_gradients"):
                of_weights = optimizer.get_unscaled_gradients(of_weights)
            optimizer.apply_gradients(zip(of_weights, weights, strict=True))

    def variables(self) -> Mapping[str, Any]:
        """What is trained, and all slots."""
        state: dict[str, Any] = {}
        for name, optimizer in self._optimizers.items():
            own = optimizer.variables
            own = own() if callable(own) else own
            parts = [weight for layer in self._parts[name] for weight in layer.weights]
            state |= {f"{name}/{index}": value for index, value in enumerate([*parts, *own])}
        return state

    def results(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


KIND = Kind(
    module="optimizers",
    bases=_BASES,
    forms=_forms,
    work=_Work,
    circumstances=("even", "uneven", "eager"),
    issues=[
        ("keras/*clip*", "keras3-clip-before-reduction"),
        ("keras/*accumulation*", "keras3-gradient-accumulation"),
        ("keras/*accumulation*", "keras3-gradient-accumulation-saved"),
        ("keras/*:*ema*", "keras3-ema-overwrite"),
        *(
            (f"keras/{part}*", "keras3-central-storage-own-state")
            for part in ("*:*ema", "*:loss_scale", "Muon", "Nadam")
        ),
        ("tf_keras/*:schedule", "tf-keras-central-storage-schedule"),
        ("tf_keras/Nadam*", "tf-keras-nadam"),
    ],
    documented=[("tf_keras/*:loss_scale/central_storage-*", "loss scaling raises: it is not supported there")],
)
