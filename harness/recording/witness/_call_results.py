"""How a call ended: the numbers that it gave back, the same for all replicas, or the error that it raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.evidence.trace import Array, Value
from harness.recording.layouts import is_laid_out

_ELEMENTS_MAX = 1 << 16


def values_of(result: Any, *, with_integers: bool) -> tuple[Value, ...]:
    """The floating tensors in a structure, by their places in it; none that each replica has for itself, or a mesh.

    Args:
        result: the structure.
        with_integers: whether those of whole numbers are wanted, too.
    """
    import tensorflow as tf

    found = []
    for path, each in _flat(result):
        is_number = _is_floating(each) or (with_integers and isinstance(each, tf.Tensor) and each.dtype.is_integer)
        if is_number and not is_laid_out(each) and (each.shape.num_elements() or 0) <= _ELEMENTS_MAX:
            found.append(Value(path, (Array.of(each.numpy()),)))
    return tuple(found)


def reports(result: Any) -> bool:
    """Whether a structure has a floating number in it, for all replicas or for each of them."""
    return any(map(_is_floating, _parts(result)))


def is_for_all(result: Any) -> bool:
    """Whether each floating number in a structure is one for all replicas."""
    import tensorflow as tf

    return not any(
        any(map(_is_floating, each.values)) if isinstance(each, tf.distribute.DistributedValues) else is_laid_out(each)
        for _, each in _flat(result)
    )


def _parts(result: Any) -> Iterator[Any]:
    import tensorflow as tf

    for _, each in _flat(result):
        yield from each.values if isinstance(each, tf.distribute.DistributedValues) else (each,)


def _is_floating(value: Any) -> bool:
    import tensorflow as tf

    return isinstance(value, tf.Tensor) and bool(value.dtype.is_floating)


def _flat(result: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(result, dict):
        pairs = [(f"{path}[{key!r}]", value) for key, value in result.items()]
    elif isinstance(result, (list, tuple)):
        pairs = [(f"{path}[{number}]", value) for number, value in enumerate(result)]
    else:
        return [(path or "result", result)]
    return [each for inner, value in pairs for each in _flat(value, inner)]


def ends_data(error: Exception) -> bool:
    """Whether a function has come to the end of its iterator, as it is meant to."""
    import tensorflow as tf

    return isinstance(error, (StopIteration, tf.errors.OutOfRangeError))


def said_of(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0][:200]
    # The first line may be no more than where TensorFlow was: "Graph execution error:".
    what = "" if text.endswith(":") else f" ({text})"
    return (
        f"a step raised {type(error).__name__}, after which the program went on: what it had changed by then stays, "
        f"and it counts as no step{what}"
    )
