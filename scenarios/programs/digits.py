"""The handwritten digits that ship with scikit-learn, cut to sizes that 1, 2, 3 and 4 replicas divide."""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["CLASSES", "GLOBAL_BATCH", "Digits", "batches", "load"]

CLASSES = 10
# 48 divides by 2, 3 and 4, so every replica of every strategy in the catalogue gets an equal share.
GLOBAL_BATCH = 48


@dataclass(frozen=True)
class Digits:
    """Example ids (int64, [n]), images (float32, [n, 8, 8, 1], multiples of 1/16 in [0, 1]) and labels (int64, [n])."""

    ids: np.ndarray[Any, Any]
    images: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]


@functools.cache
def load(count: int = 192, start: int = 0) -> Digits:
    """Read `count` examples beginning at `start`; ids are the row numbers in scikit-learn's file.

    The file is read directly, because importing scikit-learn costs a second in every process of a cluster.
    """
    import numpy as np

    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the digits data set ships with scikit-learn: pip install scikit-learn")
    path = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    rows = np.loadtxt(path, delimiter=",", dtype=np.int64, skiprows=start, max_rows=count)
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
