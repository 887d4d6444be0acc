"""Generators that lend arrays to `tf.data`, and what is seen of those arrays afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.witness import Witness, all_seams


def lent(strategy: Any) -> dict[str, tuple[str, ...]]:
    """What is said of each of these programs, by their names."""
    return {
        name: _said(strategy, program)
        for name, program in (("changed", _changed), ("kept", _kept), ("gone", _gone), ("many", _many))
    }


def _said(strategy: Any, program: Callable[[], Any]) -> tuple[str, ...]:
    witness = Witness(strategy, strategy.num_replicas_in_sync, all_seams())
    with witness.active(lambda seen: None):
        held = program()
    del held
    return witness.overwritten


def _read(generator: Callable[[], Iterator[Any]], spec: Any, epochs: int = 2) -> None:
    import tensorflow as tf

    for _ in range(epochs):
        for _ in tf.data.Dataset.from_generator(generator, output_signature=spec):
            pass


def _changed() -> Any:
    """Three views and a dict; one number of one array changes after the data was read twice."""
    import numpy as np
    import tensorflow as tf

    x, y = np.zeros((6, 2), np.float32), np.zeros(6, np.complex64)
    spec = {"x": tf.TensorSpec([2, 2]), "y": tf.TensorSpec([2], tf.complex64)}
    _read(lambda: ({"x": x[i : i + 2], "y": y[i : i + 2]} for i in (0, 2, 4)), spec)
    x[3, 1] = 1.0
    return x, y


def _kept() -> Any:
    """Strings, lists, columns and numbers too, of which TensorFlow makes copies, so that they may change."""
    import numpy as np
    import tensorflow as tf

    x, words = np.zeros((4, 2), np.float32), np.array(["a", "b"])
    spec = (
        tf.TensorSpec([4]),
        tf.TensorSpec([2], tf.string),
        tf.TensorSpec([2]),
        tf.TensorSpec([]),
        tf.TensorSpec([0]),
    )
    _read(lambda: iter([(x[:, 0], words, [1.0, 2.0], 3.0, x[:0, 0])]), spec)
    x[:] = 1.0
    words[:] = "c"
    return x, words


def _gone() -> Any:
    """Each batch has memory of its own, which nobody holds any more and others may have."""
    import numpy as np
    import tensorflow as tf

    _read(lambda: (np.full(2, number, np.float32) for number in range(50)), tf.TensorSpec([2]))
    return [np.full(2, number, np.float32) for number in range(50, 100)]


def _many() -> Any:
    """More arrays than are remembered; the last one changes."""
    import numpy as np
    import tensorflow as tf

    x = np.zeros((4100, 1), np.float32)
    _read(lambda: iter(x), tf.TensorSpec([1]), epochs=1)
    x[-1] = 1.0
    return x
