"""How values leave a graph that is run in another process of this machine: by an operation that writes a file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Take = Callable[[Sequence[Any]], None]


class Files:
    """Values on their way.

    Args:
        folder: that all processes see; made, and emptied by `collect`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._numbers = itertools.count()
        self._takers: dict[int, tuple[Take, list[Any]]] = {}

    def emit(self, tensors: Sequence[Any], take: Take) -> Any:
        """As `_leaving.emit`; `take` is called by `collect`. Returns the operation that writes."""
        import tensorflow as tf

        number = next(self._numbers)
        self._takers[number] = (take, [tensor.dtype for tensor in tensors])
        with tf.device("/cpu:0"):
            packed = tf.io.serialize_tensor(tf.stack([tf.io.serialize_tensor(tensor) for tensor in tensors]))
            at = tf.strings.as_string(tf.timestamp(), precision=6)
            return tf.io.write_file(tf.strings.join([f"{self._folder}/", at, f"-{number}"]), packed)

    def collect(self) -> None:
        """Hand over what was written since, in the order in which that was done."""
        import tensorflow as tf

        for file in sorted(self._folder.iterdir(), key=_when):
            take, kinds = self._takers[int(file.name.rpartition("-")[2])]
            parts = tf.io.parse_tensor(file.read_bytes(), tf.string)
            file.unlink()
            take([tf.io.parse_tensor(parts[place], kind) for place, kind in enumerate(kinds)])


def _when(file: Path) -> tuple[float, int]:
    at, _, number = file.name.rpartition("-")
    return float(at), int(number)
