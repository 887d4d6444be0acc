"""Digits that nobody has to download: 8 by 8 pixels of ten classes, drawn from a fixed seed."""

import numpy as np


def load_data(examples=96):
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 10, examples)
    prototypes = rng.normal(size=(10, 8, 8, 1))
    images = prototypes[labels] + 0.3 * rng.normal(size=(examples, 8, 8, 1))
    return images.astype("float32"), labels.astype("int64")
