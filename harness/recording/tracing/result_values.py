"""Stand-ins for the results of a function that did not run, so that it is seen what a program makes of them.

A value of each replica stands in for rows if its length is open, else for parts of a sum. Replicas get other numbers of
rows than each other, as with uneven shards. Run and reference get the same: what a program reports of them has to be
the same too. All of them are few bits and a power of two, so that sums and halves are exact. From call to call they
fall, rise, nearly vanish and change their sign, since a program may go by any of that.
"""

from __future__ import annotations

from typing import Any

from harness.evidence.step_graph import Output
from harness.recording.layouts import numbers_of

_POWERS = ((1, 0), (1, -2), (1, 3), (1, -14), (1, -2), (-1, 0), (-1, -14), (1, 2))
"""The sign and the power of two of the stand-ins of each call, again and again."""


def opened(structure: Any) -> tuple[Any, list[Any]]:
    """What a function returns, with what is in optionals in place of these; and the tensors of all that, in order.

    Keras 3 wraps what its train function returns into a `tf.experimental.Optional`.

    Raises:
        TypeError: an optional is not made there of values.
    """
    import tensorflow as tf

    tensors: list[Any] = []

    def look(value: Any) -> Any:
        if not isinstance(value, tf.experimental.Optional):
            tensors.extend(
                each for each in tf.nest.flatten(value, expand_composites=True) if isinstance(each, tf.Tensor)
            )
            return value
        operation = value._variant_tensor.op  # noqa: SLF001 - nothing public leads back to the values
        while operation.type == "Identity":
            operation = operation.inputs[0].op
        if operation.type != "OptionalFromValue":
            raise TypeError("a function returns an optional that is not made of values there")
        inside = tf.nest.pack_sequence_as(value.element_spec, list(operation.inputs), expand_composites=True)
        tensors.extend(operation.inputs)
        return _Wrapped(inside)

    return tf.nest.map_structure(look, structure), tensors


class _Wrapped:
    """What is in an optional."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside


def standins(
    structure: Any, graph_outputs: list[Any], replicas: int, first: int, call: int = 0
) -> tuple[Any, tuple[Output, ...]]:
    """Values of the structure that the function returns, and which results of the graph each one is.

    Args:
        structure: of symbolic tensors, as the function returns it.
        graph_outputs: the results of the graph.
        replicas: under the strategy, also where this is the reference.
        first: the number of this process's first replica.
        call: the number of the call, from 0.
    """
    import tensorflow as tf
    from tensorflow.python.distribute.values import PerReplica

    places = {id(each): at for at, each in enumerate(graph_outputs)}
    outputs: list[Output] = []

    def place_of(tensor: Any) -> int:
        return places.get(id(tensor), -1)

    def instead(value: Any) -> Any:
        number = len(outputs)
        if isinstance(value, _Wrapped):
            return tf.experimental.Optional.from_value(tf.nest.map_structure(instead, value.inside))
        if isinstance(value, PerReplica):
            if not all(isinstance(each, tf.Tensor) for each in value.values):
                raise TypeError("a function returns something of each replica that is no tensor")
            outputs.append(Output(f"output {number}", tuple(map(place_of, value.values)), per_replica=True))
            shares = [_share(each, (number, first + at, call)) for at, each in enumerate(value.values)]
            return PerReplica(tuple(shares))
        if isinstance(value, tf.Tensor):
            outputs.append(Output(f"output {number}", (place_of(value),)))
            return _whole(value, number, replicas, call)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        raise TypeError(f"a function returns a {type(value).__name__}, for which nothing can stand in")

    return tf.nest.map_structure(instead, structure), tuple(outputs)


def numbers(seed: tuple[int, int, int], shape: tuple[int, ...], dtype: Any) -> Any:
    """Stand-ins of a shape and of a dtype of TensorFlow's, by the number of the result, the replica and the call."""
    import numpy as np

    random = np.random.default_rng(seed)
    if dtype.is_bool:
        return random.integers(0, 2, size=shape) == 1
    if dtype.is_integer:
        return random.integers(1, 1 << 9, size=shape).astype(dtype.as_numpy_dtype)
    sign, power = _POWERS[seed[2] % len(_POWERS)]
    # Within a factor of two, so that the next power falls or rises for sure.
    found = sign * 2.0**power * random.integers(1 << 8, 1 << 9, size=shape) / 64
    return found.astype(dtype.as_numpy_dtype)


def rows_of(shape: list[int | None] | None, replica: int) -> tuple[int, ...]:
    """A shape in which each replica has another number of rows."""
    if not shape:
        return ()
    return tuple((replica + 2 if not at else 1) if each is None else each for at, each in enumerate(shape))


def _shape(tensor: Any, replica: int) -> tuple[int, ...]:
    return rows_of(tensor.shape.as_list() if tensor.shape.rank is not None else None, replica)


def _share(tensor: Any, seed: tuple[int, int, int]) -> Any:
    import tensorflow as tf

    return tf.constant(numbers(seed, _shape(tensor, seed[1]), tensor.dtype), tensor.dtype)


def _whole(tensor: Any, number: int, replicas: int, call: int) -> Any:
    """The sum of all replicas' shares, or their rows where the length is open."""
    import numpy as np
    import tensorflow as tf

    shares = [numbers((number, replica, call), _shape(tensor, replica), tensor.dtype) for replica in range(replicas)]
    if tensor.dtype.is_bool:
        return tf.constant(shares[0])
    if tensor.shape.rank and tensor.shape[0] is None:
        return tf.constant(np.concatenate(shares), tensor.dtype)
    return tf.constant(np.sum(shares, axis=0).astype(tensor.dtype.as_numpy_dtype), tensor.dtype)


def joined(parts: list[Any]) -> Any:
    """What values of all replicas mean together: rows, of which each has another number, or parts of a sum."""
    import numpy as np

    return np.sum(parts, axis=0) if len({each.shape for each in parts}) == 1 else np.concatenate(parts)


def reported_value(value: Any) -> Any:
    """What a report counts as: parts of replicas as their sum, rows joined; None for what is no number."""
    import numpy as np
    import tensorflow as tf

    if hasattr(value, "result") or value is None:
        return None  # a metric, whose variables are looked at
    if isinstance(value, tf.distribute.DistributedValues):
        return joined([np.asarray(each) for each in value._values])  # noqa: SLF001 - the values in this process
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if isinstance(value, tf.Tensor) and value.dtype.is_floating:
        value = tf.cast(value, tf.float64)  # of bfloat16 and its like NumPy knows nothing
    array = numbers_of(value) if isinstance(value, tf.Tensor) else np.asarray(value)
    return array if array.dtype.kind in "fiub" else None
