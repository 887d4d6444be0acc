"""Losses by each reduction, with the weights of examples, as the loss of a small layer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tools.probing.kinds.layers import XLA_CANNOT
from tools.probing.kinds.protocol import Form, Keras, Kind

_NAMES = (
    "CTC",
    "BinaryCrossentropy",
    "BinaryFocalCrossentropy",
    "CategoricalCrossentropy",
    "CategoricalFocalCrossentropy",
    "CategoricalGeneralizedCrossEntropy",
    "CategoricalHinge",
    "Circle",
    "CosineSimilarity",
    "Hinge",
    "Huber",
    "KLDivergence",
    "LogCosh",
    "MeanAbsoluteError",
    "MeanAbsolutePercentageError",
    "MeanSquaredError",
    "MeanSquaredLogarithmicError",
    "Poisson",
    "SparseCategoricalCrossentropy",
    "SquaredHinge",
)
_SPARSE = ("SparseCategoricalCrossentropy", "CategoricalGeneralizedCrossEntropy", "Circle")
# Without an axis they have one number for a whole batch.
_OVER_AXES = ("Dice", "Tversky")


def _forms(keras: Keras) -> dict[str, Form]:
    return {
        f"{name}:{way}": Form(
            "label", functools.partial(_make, name=name, reduction=way, **_axis_of(name)), public=name
        )
        for name in (*_NAMES, *_OVER_AXES)
        if hasattr(keras.losses, name)
        for way in ("none", "sum")
    }


def _axis_of(name: str) -> dict[str, int]:
    return {"axis": 1} if name in _OVER_AXES else {}


def _make(keras: Keras, name: str, **options: Any) -> Any:
    return getattr(keras.losses, name)(**options)


class _Work:
    """Each loss has a dense layer, whose outputs it is given."""

    inputs = ("vector", "label", "tokens")

    def __init__(self, keras: Keras, forms: Mapping[str, Form], rows: int) -> None:
        self._rows = rows
        self._losses = {name: form.make(keras) for name, form in forms.items()}
        self._layers = {name: keras.layers.Dense(4, activation="softmax") for name in forms}
        for layer in self._layers.values():
            layer.build((None, 8))
        self._weights = [weight for layer in self._layers.values() for weight in layer.trainable_variables]
        self._optimizer = keras.optimizers.SGD(0.1)
        self._optimizer.build(self._weights)

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """Each loss, and its gradients."""
        import tensorflow as tf

        found, gradients = {}, []
        for name, loss in self._losses.items():
            label = batch["label"]
            if name.partition(":")[0] in _SPARSE:
                label = tf.argmax(label, axis=1)
            layer = self._layers[name]
            with tf.GradientTape() as tape:
                scores = layer(batch["vector"])
                if name.startswith("CTC:"):
                    label, scores = _sequences(batch["tokens"], scores)
                # Rows that count once, twice and not at all.
                of_rows = loss(label, scores, sample_weight=tf.reduce_sum(batch["tokens"], axis=1) % 3)
                found[name] = tf.reduce_sum(of_rows) / self._rows
            gradients += tape.gradient(found[name], layer.trainable_variables)
        return found, gradients

    def update(self, gradients: Any) -> None:
        """One update of all layers."""
        self._optimizer.apply_gradients(zip(gradients, self._weights, strict=True))

    def variables(self) -> Mapping[str, Any]:
        """The weights of the layers."""
        return {
            f"{name}/{index}": weight
            for name, layer in self._layers.items()
            for index, weight in enumerate(layer.weights)
        }

    def results(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


def _sequences(tokens: Any, scores: Any) -> tuple[Any, Any]:
    """Two labels of each row, none of them the blank, and its scores at each of five times."""
    import tensorflow as tf

    times = tf.cast(tf.range(1, 6), scores.dtype)
    return 1 + tokens[:, :2] % 3, scores[:, None, :] * times[None, :, None]


KIND = Kind(
    module="losses",
    bases=frozenset({"Loss", "Reduction"}),
    forms=_forms,
    work=_Work,
    circumstances=("even", "uneven", "eager", "half", "compiled"),
    documented=[
        ("keras/Circle:*", "rows are compared with others of the same replica"),
        ("tf_keras/CosineSimilarity*/half", "it has no bfloat16, on one device either"),
    ],
    beyond=XLA_CANNOT,
)
