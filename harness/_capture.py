"""Turns what a program hands to `record` into arrays; runs inside a task and imports TensorFlow when called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.trace import Array, Value, Variable

__all__ = ["capture_examples", "capture_value", "capture_values", "capture_variable", "named", "tensor_of"]


def named(values: Any, prefix: str) -> list[tuple[str, Any]]:
    """Pair every value with a name: the keys of a mapping, `name`/`path` of a variable, else its position."""
    if isinstance(values, Mapping):
        return [(str(name), value) for name, value in values.items()]
    if not isinstance(values, (list, tuple)):
        return [(prefix, values)]
    return [(f"{prefix}[{index}]", value) for index, value in enumerate(values)]


def capture_value(strategy: Any, name: str, value: Any) -> Value:
    """One loss, gradient, metric or prediction."""
    parts, per_replica = _parts(strategy, value)
    return Value(name=name, parts=tuple(Array.of(_numpy(part)) for part in parts), per_replica=per_replica)


def capture_values(strategy: Any, values: Any, prefix: str) -> tuple[Value, ...]:
    """A mapping or sequence of values; `None` entries (a variable without gradient) are left out."""
    return tuple(capture_value(strategy, name, value) for name, value in named(values, prefix) if value is not None)


def capture_variable(strategy: Any, name: str, variable: Any) -> Variable:
    """One variable with all copies that live in this process."""
    import tensorflow as tf

    inner = tensor_of(variable)
    shards = getattr(inner, "variables", None)
    if isinstance(shards, (list, tuple)):  # ShardedVariable of a parameter-server partitioner, split along axis 0
        import numpy as np

        return Variable(name=name, copies=(Array.of(np.concatenate([shard.numpy() for shard in shards])),))
    if isinstance(inner, tf.distribute.DistributedValues):
        copies = tuple(Array.of(_numpy(copy)) for copy in strategy.experimental_local_results(inner))
        if getattr(inner, "synchronization", None) == tf.VariableSynchronization.ON_READ:
            return Variable(name=name, copies=copies, kind="on_read", aggregated=Array.of(inner.read_value().numpy()))
        return Variable(name=name, copies=copies, kind="mirrored")
    return Variable(name=name, copies=(Array.of(_numpy(inner)),))


def capture_examples(strategy: Any, examples: Any) -> tuple[tuple[int, ...], ...]:
    """Example ids, one tuple per local replica that has any."""
    import numpy as np

    parts, _ = _parts(strategy, examples)
    return tuple(tuple(int(number) for number in np.asarray(_numpy(part)).ravel()) for part in parts)


def tensor_of(variable: Any) -> Any:
    """The TensorFlow variable inside a Keras 3 variable; any other object as it is."""
    return variable.value if type(variable).__module__.partition(".")[0] == "keras" else variable


def variable_names(variables: Iterable[Any]) -> list[str]:
    """A unique, strategy-independent name for each variable: its path or name, numbered where it repeats."""
    seen: dict[str, int] = {}
    names = []
    for position, variable in enumerate(variables):
        # Keras 3 has paths; the name of a shard ends in /part_N, which is the partitioner's business.
        name = str(getattr(variable, "path", None) or getattr(variable, "name", None) or f"variable[{position}]")
        name = name.partition(":")[0].partition("/part_")[0]
        count = seen[name] = seen.get(name, 0) + 1
        names.append(name if count == 1 else f"{name}#{count}")
    return names


def _parts(strategy: Any, value: Any) -> tuple[tuple[Any, ...], bool]:
    import tensorflow as tf

    if hasattr(value, "result") and hasattr(value, "update_state"):  # a Keras metric
        value = value.result()
    if isinstance(value, tf.distribute.experimental.coordinator.RemoteValue):
        value = value.fetch()
    if isinstance(value, tf.distribute.DistributedValues) and not isinstance(value, tf.Variable):
        return tuple(strategy.experimental_local_results(value)), True
    return (value,), False


def _numpy(value: Any) -> Any:
    import tensorflow as tf

    value = tensor_of(value)
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if isinstance(value, tf.RaggedTensor):
        value = value.flat_values
    return value.numpy() if hasattr(value, "numpy") else value
