"""Layers that draw random numbers: dropout, noise and augmentation."""

from __future__ import annotations

import functools
from typing import Any

from tools.probing.kinds.layers import BASES, LayerWork
from tools.probing.kinds.protocol import Form, Keras, Kind, Row, forms_of

_ROWS: list[Row] = [
    ("Dropout", "vector", (0.5,), {}),
    ("AlphaDropout", "vector", (0.5,), {}),
    ("GaussianDropout", "vector", (0.5,), {}),
    ("GaussianNoise", "vector", (0.5,), {}),
    ("SpatialDropout1D", "sequence", (0.5,), {}),
    ("SpatialDropout2D", "image", (0.5,), {}),
    ("SpatialDropout3D", "volume", (0.5,), {}),
    ("LSTM:dropout", "sequence", (3,), {"dropout": 0.3, "recurrent_dropout": 0.3}),
    ("GRU:dropout", "sequence", (3,), {"dropout": 0.3, "recurrent_dropout": 0.3}),
    ("RandomFlip", "image", (), {}),
    ("RandomRotation", "image", (0.2,), {}),
    ("RandomZoom", "image", (0.2,), {}),
    ("RandomTranslation", "image", (0.2, 0.2), {}),
    ("RandomShear", "image", (0.2, 0.2), {}),
    ("RandomPerspective", "image", (), {}),
    ("RandomCrop", "image", (4, 4), {}),
    ("RandomHeight", "image", (0.2,), {}),
    ("RandomWidth", "image", (0.2,), {}),
    ("RandomBrightness", "image", (0.2,), {"value_range": (0, 1)}),
    ("RandomContrast", "image", (0.2,), {}),
    ("RandomSaturation", "image", (0.2,), {"value_range": (0, 1)}),
    ("RandomHue", "image", (0.2,), {"value_range": (0, 1)}),
    ("RandomGrayscale", "image", (), {}),
    ("RandomInvert", "image", (), {"value_range": (0, 1)}),
    ("RandomPosterization", "image", (4,), {"value_range": (0, 1)}),
    ("RandomSharpness", "image", (0.2,), {"value_range": (0, 1)}),
    ("RandomGaussianBlur", "image", (), {"value_range": (0, 1)}),
    ("RandomColorDegeneration", "image", (0.5,), {"value_range": (0, 1)}),
    ("RandomColorJitter", "image", (), {"value_range": (0, 1), "brightness_factor": 0.2}),
    ("RandomErasing", "image", (), {"value_range": (0, 1)}),
    ("RandomElasticTransform", "image", (), {"value_range": (0, 1)}),
    ("Solarization", "image", (), {"addition_factor": 0.1, "value_range": (0, 1)}),
    ("RandAugment", "image", (), {"value_range": (0, 1)}),
    ("AugMix", "image", (), {"value_range": (0, 1)}),
]


def _forms(keras: Keras) -> dict[str, Form]:
    forms = forms_of(keras, "layers", _ROWS)
    for name in ("MixUp", "CutMix"):
        if hasattr(keras.layers, name):
            forms[name] = Form("image", functools.partial(_make, name=name), _mixed)
    return forms


def _make(keras: Keras, name: str) -> Any:
    return getattr(keras.layers, name)()


def _mixed(layer: Any, images: Any, **options: Any) -> Any:
    import tensorflow as tf

    labels = tf.one_hot(tf.range(tf.shape(images)[0]) % 4, 4)
    return layer({"images": images, "labels": labels}, **options)["images"]


_FOR_A_BATCH = "a number is drawn for a batch, and each replica draws one for its own rows"
KIND = Kind(
    module="layers",
    bases=BASES,
    forms=_forms,
    work=LayerWork,
    circumstances=("even", "uneven"),
    issues=[
        ("keras/*", "keras3-central-storage-own-state"),
        ("keras/RandAugment*", "keras3-equalization-batch"),
        ("keras/AugMix*", "keras3-aug-mix-python-random"),
        ("keras/RandomElasticTransform*", "keras3-elastic-transform-first-image"),
    ],
    documented=[
        *((f"keras/{name}*/*", "rows are mixed with others of the same replica") for name in ("CutMix", "MixUp")),
        *((f"tf_keras/Random{name}*/*", _FOR_A_BATCH) for name in ("Contrast", "Crop", "Height", "Width")),
    ],
)
