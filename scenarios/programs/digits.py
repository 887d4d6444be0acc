"""Handwritten digits, cut to sizes that 1, 2, 3 and 4 replicas divide.

`digits.csv.gz` is the test set of E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (1998), of the
UCI Machine Learning Repository, doi.org/10.24432/C50P49, under CC BY 4.0, as scikit-learn ships it: 1797 rows of 64
pixels from 0 to 16, and the digit. It lies here because Keras imports scikit-learn and SciPy wherever they are
installed, which is a fifth of what it costs to import TensorFlow, in each process that does.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

CLASSES = 10
# 48 divides by 2, 3 and 4, so every replica of every strategy in the catalogue gets an equal share.
GLOBAL_BATCH = 48
_FILE = Path(__file__).with_name("digits.csv.gz")


@dataclass(frozen=True)
class Digits:
    """Example ids (int64, [n]), images (float32, [n, 8, 8, 1], multiples of 1/16 in [0, 1]) and labels (int64, [n])."""

    ids: np.ndarray[Any, Any]
    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]


@functools.cache
def load(count: int = 192, start: int = 0) -> Digits:
    """Read `count` examples beginning at `start`; ids are the row numbers in the file."""
    import numpy as np

    rows = np.loadtxt(_FILE, delimiter=",", dtype=np.int64, skiprows=start, max_rows=count)
    images = (rows[:, :64].reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    return Digits(ids=np.arange(start, start + len(rows)), images=images, labels=rows[:, 64])


def batches(digits: Digits, global_batch: int = GLOBAL_BATCH) -> Any:
    """A `tf.data.Dataset` of (ids, images, labels) in file order, one global batch per element.

    Handed to `strategy.experimental_distribute_dataset`, each element is one global step under every strategy:
    TensorFlow splits the batch over all replicas first and gives each worker its splits, so no example moves to
    another step.
    """
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((digits.ids, digits.images, digits.labels)).batch(global_batch)
