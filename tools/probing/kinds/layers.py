"""Layers that draw no random numbers: forward pass, gradients and state, each in an update of its own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from tools.probing.kinds.protocol import Form, Keras, Kind, Row, forms_of
from tools.probing.kinds.stepping import examples

_RANKS = (("1D", "sequence"), ("2D", "image"), ("3D", "volume"))
_VECTORS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Dense", (3,), {}),
    ("Dense:regularized", (3,), {"kernel_regularizer": "l2"}),
    ("Dense:activity", (3,), {"activity_regularizer": "l2"}),
    ("Dense:constrained", (3,), {"kernel_constraint": "max_norm"}),
    ("EinsumDense", ("ab,bc->ac",), {"output_shape": 3, "bias_axes": "c"}),
    ("LayerNormalization", (), {}),
    ("RMSNormalization", (), {}),
    ("UnitNormalization", (), {}),
    ("GroupNormalization", (2,), {}),
    ("BatchNormalization:synchronized", (), {"synchronized": True}),
    ("PReLU", (), {}),
    ("LeakyReLU", (), {}),
    ("ELU", (), {}),
    ("ReLU", (), {}),
    ("Softmax", (), {}),
    ("ThresholdedReLU", (), {}),
    ("Activation", ("gelu",), {}),
    ("Flatten", (), {}),
    ("Identity", (), {}),
    ("Reshape", ((2, 4),), {}),
    ("RepeatVector", (2,), {}),
    ("Rescaling", (0.5,), {"offset": 1.0}),
    ("Normalization", (), {"mean": 0.5, "variance": 2.0}),
    ("Discretization", (), {"bin_boundaries": [0.2, 0.5, 0.8]}),
    ("ActivityRegularization", (), {"l1": 0.1, "l2": 0.2}),
]
_OTHERS: list[Row] = [
    ("LayerNormalization:axes", "sequence", (), {"axis": [1, 2]}),
    ("Masking", "sequence", (), {"mask_value": 0.5}),
    ("Permute", "sequence", ((2, 1),), {}),
    ("GroupNormalization:image", "image", (3,), {}),
    ("BatchNormalization:image", "image", (), {"synchronized": True}),
    ("BatchNormalization:frozen", "image", (), {"trainable": False}),
    ("Conv2D:groups", "image", (3, 3), {"groups": 3}),
    ("UpSampling2D:bilinear", "image", (2,), {"interpolation": "bilinear"}),
    ("LocallyConnected1D", "sequence", (2, 2), {}),
    ("LocallyConnected2D", "image", (2, 2), {}),
    ("ConvLSTM1D", "frames", (2, 2), {}),
    ("ConvLSTM2D", "video", (2, 2), {}),
    ("ConvLSTM3D", "volumes", (2, 2), {}),
    ("Embedding", "tokens", (8, 3), {}),
    ("Embedding:mask", "tokens", (8, 3), {"mask_zero": True}),
    ("ReversibleEmbedding", "tokens", (8, 3), {}),
    ("CategoryEncoding", "tokens", (8,), {}),
    ("CategoryEncoding:count", "tokens", (8,), {"output_mode": "count"}),
    ("Hashing", "tokens", (5,), {}),
    ("IntegerLookup", "tokens", (), {"vocabulary": [1, 3, 5, 7]}),
    ("IntegerLookup:counts", "tokens", (), {"vocabulary": [1, 3, 5, 7], "output_mode": "count"}),
    ("StringLookup", "words", (), {"vocabulary": ["a", "b", "c"]}),
    ("TextVectorization", "words", (), {"vocabulary": ["a", "b", "c"], "output_mode": "count", "ngrams": 2}),
    ("Resizing", "image", (4, 5), {}),
    ("CenterCrop", "image", (4, 4), {}),
    ("AutoContrast", "image", (), {"value_range": (0, 1)}),
    ("Equalization", "image", (), {"value_range": (0, 1)}),
    ("MelSpectrogram", "vector", (4, 2), {"num_mel_bins": 3}),
    ("ContrastLimitedAdaptiveHistogramEqualization", "image", (), {"value_range": (0, 1), "tile_grid_size": (2, 2)}),
]


def _recurrent() -> list[Row]:
    options = ("return_sequences", "unroll", "go_backwards")
    rows: list[Row] = []
    for name in ("LSTM", "GRU", "SimpleRNN"):
        rows.append((name, "sequence", (3,), {}))
        rows += [(f"{name}:{option}", "sequence", (3,), {option: True}) for option in options]
    return rows


def _spatial() -> list[Row]:
    rows: list[Row] = []
    for rank, inputs in _RANKS:
        rows += [
            (f"Conv{rank}", inputs, (3, 3), {"padding": "same"}),
            (f"Conv{rank}:strided", inputs, (2, 2), {"strides": 2}),
            (f"Conv{rank}:dilated", inputs, (2, 2), {"dilation_rate": 2}),
            (f"Conv{rank}Transpose", inputs, (3, 3), {}),
            (f"SeparableConv{rank}", inputs, (3, 2), {}),
            (f"DepthwiseConv{rank}", inputs, (2,), {"depth_multiplier": 2}),
            *((f"{kind}Pooling{rank}", inputs, (2,), {}) for kind in ("Max", "Average")),
            *(
                (f"{kind}Pooling{rank}:same", inputs, (3,), {"strides": 2, "padding": "same"})
                for kind in ("Max", "Average")
            ),
            *((f"Global{kind}Pooling{rank}", inputs, (), {}) for kind in ("Max", "Average")),
            *((f"Adaptive{kind}Pooling{rank}", inputs, (2,), {}) for kind in ("Max", "Average")),
            *((f"{kind}{rank}", inputs, (1,), {}) for kind in ("Cropping", "ZeroPadding")),
            (f"UpSampling{rank}", inputs, (2,), {}),
        ]
    return rows


def _spectral() -> dict[str, Form]:
    """What needs SciPy."""
    if find_spec("scipy") is None:
        return {}
    return {
        "STFTSpectrogram": Form("vector", lambda chosen: chosen.layers.STFTSpectrogram("real", 4, 2, 4)),
    }


def _composed(keras: Keras) -> dict[str, Form]:
    """Layers around layers, and those that are given more than one input."""

    def twice(layer: Any, x: Any, **options: Any) -> Any:
        return layer([x, x * 0.5], **options)

    def itself(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, x, **options)

    def causal(layer: Any, x: Any, **options: Any) -> Any:
        return layer(x, x, use_causal_mask=True, **options)

    def boxed(layer: Any, x: Any, **options: Any) -> Any:
        import tensorflow as tf

        boxes = tf.reshape(x, [-1, 27, 4])
        given = {"images": x, "bounding_boxes": {"boxes": boxes, "labels": boxes[:, :, 0]}}
        return layer(given, **options)["bounding_boxes"]["boxes"]

    def crossed(layer: Any, x: Any, **options: Any) -> Any:
        return layer((x[:, 0], x[:, 1]), **options)

    def behind_mask(after: str, *args: Any) -> Form:
        def make(chosen: Keras) -> Any:
            embedding = chosen.layers.Embedding(8, 3, mask_zero=True)
            return chosen.Sequential([embedding, getattr(chosen.layers, after)(*args)])

        return Form("tokens", make)

    forms = {
        **_spectral(),
        "Bidirectional": Form("sequence", lambda chosen: chosen.layers.Bidirectional(chosen.layers.LSTM(3))),
        "TimeDistributed": Form("sequence", lambda chosen: chosen.layers.TimeDistributed(chosen.layers.Dense(2))),
        "RNN": Form(
            "sequence", lambda chosen: chosen.layers.RNN([chosen.layers.LSTMCell(3), chosen.layers.GRUCell(2)])
        ),
        "StackedRNNCells": Form(
            "sequence",
            lambda chosen: chosen.layers.RNN(chosen.layers.StackedRNNCells([chosen.layers.SimpleRNNCell(3)] * 1)),
        ),
        "MaxNumBoundingBoxes": Form(
            "image", lambda chosen: chosen.layers.MaxNumBoundingBoxes(5, bounding_box_format="xyxy"), boxed
        ),
        "HashedCrossing": Form("tokens", lambda chosen: chosen.layers.HashedCrossing(5), crossed),
        "Attention": Form("sequence", lambda chosen: chosen.layers.Attention(use_scale=True), twice),
        "Attention:concat": Form("sequence", lambda chosen: chosen.layers.Attention(score_mode="concat"), twice),
        "AdditiveAttention": Form("sequence", lambda chosen: chosen.layers.AdditiveAttention(), twice),
        "MultiHeadAttention": Form("sequence", lambda chosen: chosen.layers.MultiHeadAttention(2, 3), itself),
        "MultiHeadAttention:causal": Form("sequence", lambda chosen: chosen.layers.MultiHeadAttention(2, 3), causal),
        "LSTM:mask": behind_mask("LSTM", 2),
        "GRU:mask": behind_mask("GRU", 2),
        "GlobalAveragePooling1D:mask": behind_mask("GlobalAveragePooling1D"),
        "SpectralNormalization": Form(
            "vector", lambda chosen: chosen.layers.SpectralNormalization(chosen.layers.Dense(3))
        ),
        "GroupQueryAttention": Form("sequence", lambda chosen: chosen.layers.GroupQueryAttention(3, 2, 1), itself),
        **{
            name: Form("vector", functools.partial(_merging, name=name), twice)
            for name in ("Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract")
        },
        "Dot": Form("vector", lambda chosen: chosen.layers.Dot(1), twice),
    }
    return {name: form for name, form in forms.items() if hasattr(keras.layers, name.partition(":")[0])}


def _merging(keras: Keras, name: str) -> Any:
    return getattr(keras.layers, name)()


def _forms(keras: Keras) -> dict[str, Form]:
    vectors: list[Row] = [(name, "vector", args, options) for name, args, options in _VECTORS]
    return forms_of(keras, "layers", vectors + _OTHERS + _recurrent() + _spatial()) | _composed(keras)


class LayerWork:
    """Each layer's outputs are the loss of its own weights."""

    def __init__(self, keras: Keras, forms: Mapping[str, Form], rows: int) -> None:
        self._rows = rows
        self._forms = forms
        self._layers = {name: form.make(keras) for name, form in forms.items()}
        # What replicas have rarely is even: the weights are built of one row.
        self.inputs = {form.inputs for form in forms.values()}
        one = examples(1, self.inputs)
        for name in forms:
            self._call(name, one[forms[name].inputs])
        self._weights = [weight for layer in self._layers.values() for weight in layer.trainable_variables]
        self._optimizer = keras.optimizers.SGD(0.1)
        if self._weights:
            self._optimizer.build(self._weights)

    def _call(self, name: str, inputs: Any) -> Any:
        import tensorflow as tf

        layer, call = self._layers[name], self._forms[name].call or _plain
        inputs = tf.convert_to_tensor(inputs)
        try:
            return call(layer, inputs, training=True)
        except TypeError:
            return call(layer, inputs)

    def compute(self, batch: Mapping[str, Any]) -> tuple[Mapping[str, Any], Any]:
        """The loss of each layer, and what it says of the weights."""
        import tensorflow as tf

        losses, gradients = {}, []
        for name, layer in self._layers.items():
            with tf.GradientTape() as tape:
                outputs = tf.cast(tf.convert_to_tensor(self._call(name, batch[self._forms[name].inputs])), tf.float32)
                of_examples = tf.reduce_sum(tf.reshape(tf.sin(outputs), [tf.shape(outputs)[0], -1]), axis=1)
                loss = tf.nn.compute_average_loss(of_examples, global_batch_size=self._rows)
                if layer.losses:
                    loss += tf.cast(tf.nn.scale_regularization_loss(tf.add_n(layer.losses)), loss.dtype)
            losses[name] = loss
            gradients += tape.gradient(loss, layer.trainable_variables)
        return losses, gradients

    def update(self, gradients: Any) -> None:
        """One update of all layers."""
        pairs = [pair for pair in zip(gradients, self._weights, strict=True) if pair[0] is not None]
        if pairs:
            self._optimizer.apply_gradients(pairs)

    def variables(self) -> Mapping[str, Any]:
        """The weights of each layer, those that are not trained included."""
        return {
            f"{name}/{index}": weight
            for name, layer in self._layers.items()
            for index, weight in enumerate(layer.weights)
            if weight.dtype != "string"
        }

    def results(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}


def _plain(layer: Any, inputs: Any, **options: Any) -> Any:
    return layer(inputs, **options)


_TO_DERIVE_FROM = {"Layer", "Wrapper", "InputLayer", "InputSpec", "Input", "AbstractRNNCell", "DenseFeatures", "Lambda"}
_OF_OTHER_BACKENDS = {"FlaxLayer", "JaxLayer", "TorchModuleWrapper", "TFSMLayer"}
# Other forms make them.
_INSIDE = {"GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells", "Pipeline"}
BASES = frozenset(_TO_DERIVE_FROM | _OF_OTHER_BACKENDS | _INSIDE)
_MEANS_OF_MEANS = "an activity regularizer is divided by the examples of each replica, whose means are averaged"
XLA_CANNOT = (
    ("*/*/multi_worker-*/compiled", "XLA has no collectives on CPUs"),
    ("*/*/central_storage-*/compiled", "XLA reads no variable of another device"),
)
KIND = Kind(
    module="layers",
    bases=BASES,
    forms=_forms,
    work=LayerWork,
    circumstances=("even", "uneven", "eager", "half", "compiled"),
    issues=[
        ("keras/MelSpectrogram*", "keras3-mel-spectrogram-batch"),
        ("keras/Equalization*", "keras3-equalization-batch"),
        ("tf_keras/*:*constrain*", "tf-keras-central-storage-constraint"),
        ("keras/BatchNormalization*", "keras3-central-storage-own-state"),
        *((f"keras/{name}*", "keras3-central-storage-own-state") for name in ("SpectralNormalization", "*:*constrain")),
    ],
    documented=[
        ("tf_keras/SpectralNormalization/*", "it fails beside Keras 3, on one device too"),
        ("keras/*groups*/central_storage-*/*", "on CPUs XLA computes it, which reads no variable of another device"),
        *(
            (f"*/{name}/*/uneven", _MEANS_OF_MEANS)
            for name in ("Dense:activity", "ActivityRegularization*", "*activity_regularizer=*")
        ),
    ],
    unmade={"STFTSpectrogram": "a form makes it where SciPy is installed"},
    beyond=[
        *XLA_CANNOT,
        *((f"*/{name}*/*/compiled", "XLA has no strings") for name in ("StringLookup", "TextVectorization", "Hashing")),
        ("*/IntegerLookup*/*/compiled", "XLA has no lookup tables"),
    ],
)
