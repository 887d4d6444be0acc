"""Turns what a program hands to `record` into arrays; runs inside a task and imports TensorFlow when called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.evidence.observed import unique_names
from harness.evidence.trace import Array, Value, Variable
from harness.recording.layouts import copies_of, is_laid_out, own_rows
from harness.recording.record_values import EXAMPLES, VARIABLES, ValuePlace, array_of, check_dtype, key_of, value_text
from harness.recording.shards import grouped, name_of
from harness.recording.tensors import is_keras_variable, tensor_of

_TASK = re.compile(r"[a-z_]+:\d+")
_IDS_MAX = 2**63 - 1


def named(values: Any, prefix: str, place: ValuePlace) -> list[tuple[str, Any, ValuePlace]]:
    """Every value with its name, and where it stands: under the keys of a mapping, else at its position."""
    if isinstance(values, Mapping):
        return [(key_of(key, place), value, place.entry(key)) for key, value in values.items()]
    if not isinstance(values, (list, tuple)):
        return [(prefix, values, place)]
    return [(f"{prefix}[{index}]", value, place.entry(index)) for index, value in enumerate(values)]


def capture_value(strategy: Any, name: str, value: Any, place: ValuePlace) -> Value:
    """One loss, gradient, metric or prediction.

    Raises:
        TypeError: it is nothing that could be compared; the sentence says what is accepted.
    """
    parts, per_replica = _parts(strategy, value)
    if not per_replica and is_laid_out(part := tensor_of(parts[0])):
        check_dtype(part, part.dtype.name, place)
        first, *others = map(Array.of, copies_of(part))
        return Value(name=name, parts=(first,), others=tuple(each for each in others if each != first))
    return Value(name=name, parts=tuple(_array(part, place) for part in parts), per_replica=per_replica)


def capture_values(strategy: Any, values: Any, prefix: str, place: ValuePlace) -> tuple[Value, ...]:
    """A mapping or sequence of values; `None` entries (a variable without gradient) are left out.

    Raises:
        TypeError: as for `capture_value`.
    """
    return tuple(
        capture_value(strategy, name, value, where)
        for name, value, where in named(values, prefix, place)
        if value is not None
    )


def check_variables(variables: Any, place: ValuePlace) -> None:
    """Look at all variables before anything is read from one or, by a rerun with noise, written to it.

    Raises:
        TypeError: one of them is none, or holds no numbers.
    """
    _named_variables(variables, replace(place, accepted=VARIABLES))


def capture_variables(strategy: Any, variables: Any, place: ValuePlace) -> tuple[Variable, ...]:
    """Variables in any nesting of sequences, or a mapping from name to variable, with all copies in this process.

    The shards into which a parameter-server partitioner splits a variable along its first axis are put together again,
    whether they come as one ShardedVariable or, as tf_keras lists them, one by one.

    Raises:
        TypeError: one of them is no variable, or holds no numbers.
    """
    place = replace(place, accepted=VARIABLES)
    return tuple(
        _capture_one(strategy, name, shards[0], place) if len(shards) == 1 else _capture_shards(name, shards, place)
        for name, shards in variable_groups(strategy, variables, place)
    )


def variable_groups(strategy: Any, variables: Any, place: ValuePlace) -> list[tuple[str, list[Any]]]:
    """Each variable under the name that it is recorded by: one object, or its shards in their order.

    Raises:
        TypeError: as of `capture_variables`.
    """
    given = _named_variables(variables, replace(place, accepted=VARIABLES))
    if isinstance(variables, Mapping):
        return [(name, group.shards) for name, one, _ in given for group in grouped(strategy, [one])]
    found = grouped(strategy, [one for _, one, _ in given])
    return list(zip(unique_names([group.name for group in found]), [each.shards for each in found], strict=True))


def flat_variables(variables: Any) -> list[Any]:
    """All variables of any nesting of sequences and mappings."""
    return [variable for _, variable in _leaves(variables)]


def without(variables: Any, left_out: Callable[[Any], bool]) -> Any:
    """The same without the variables that are left out."""
    if isinstance(variables, Mapping):
        return {key: item for key, item in variables.items() if not left_out(item)}
    every = flat_variables(variables)
    found = [variable for variable in every if not left_out(variable)]
    return variables if len(found) == len(every) else found


def _leaves(variables: Any, at: str = "") -> list[tuple[str, Any]]:
    """Every variable, and the indices that lead to it."""
    if isinstance(variables, Mapping):
        return [leaf for key, item in variables.items() for leaf in _leaves(item, f"{at}[{key!r}]")]
    # Also Keras's and TensorFlow's own list types.
    if isinstance(variables, Sequence) and not isinstance(variables, (str, bytes)):
        return [leaf for index, item in enumerate(variables) for leaf in _leaves(item, f"{at}[{index}]")]
    return [(at, variables)]


def _named_variables(variables: Any, place: ValuePlace) -> list[tuple[str, Any, ValuePlace]]:
    if isinstance(variables, Mapping):
        given = [(key_of(key, place), item, place.entry(key)) for key, item in variables.items()]
    else:
        given = [("", item, replace(place, what=f"{place.what}{at}")) for at, item in _leaves(variables)]
    for name, item, where in given:
        shown = name_of(item) if not name and _is_variable(item) else ""
        _check_variable(item, replace(where, what=f"{where.what} ({shown!r})") if shown else where)
    return given


def _is_variable(value: Any) -> bool:
    import tensorflow as tf
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    return is_keras_variable(value) or isinstance(value, (tf.Variable, ShardedVariable))


def _check_variable(value: Any, place: ValuePlace) -> None:
    if not _is_variable(value):
        holds = getattr(value, "variables", None)
        raise place.refused(value_text(value), "give its .variables" if holds is not None else "")
    check_dtype(tensor_of(value), tensor_of(value).dtype.name, place)


def _capture_shards(name: str, shards: list[Any], place: ValuePlace) -> Variable:
    import numpy as np

    return Variable(name=name, copies=(Array.of(np.concatenate([_array(each, place).numpy() for each in shards])),))


def _capture_one(strategy: Any, name: str, variable: Any, place: ValuePlace) -> Variable:
    import tensorflow as tf

    inner = tensor_of(variable)
    if is_laid_out(inner):
        return Variable(name=name, copies=tuple(map(Array.of, copies_of(inner))), kind="mirrored")
    if isinstance(inner, tf.distribute.DistributedValues):
        copies = tuple(_array(copy, place) for copy in strategy.experimental_local_results(inner))
        if getattr(inner, "synchronization", None) == tf.VariableSynchronization.ON_READ:
            return Variable(name=name, copies=copies, kind="on_read", aggregated=Array.of(inner.read_value().numpy()))
        return Variable(name=name, copies=copies, kind="mirrored")
    return Variable(name=name, copies=(_array(inner, place),))


def capture_examples(
    strategy: Any, examples: Any, place: ValuePlace
) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...] | None]:
    """Example ids, one tuple per local replica; of a mapping by task also the task of each tuple.

    Raises:
        TypeError: the ids are not integers.
        ValueError: a key of the mapping is not written as `job:index`, or an id does not fit into int64.
    """
    place = replace(place, accepted=EXAMPLES)
    if not isinstance(examples, Mapping):
        return tuple(_ids(part, place) for part in _parts(strategy, examples)[0]), None
    found: list[tuple[str, tuple[int, ...]]] = []
    for task, ids in examples.items():
        if not isinstance(task, str) or _TASK.fullmatch(task) is None:
            raise ValueError(f"{place.call}: examples by task have keys such as 'worker:0', not {task!r}")
        found += [(task, _ids(part, place.entry(task))) for part in _parts(strategy, ids)[0]]
    return tuple(ids for _, ids in found), tuple(task for task, _ in found)


def _ids(part: Any, place: ValuePlace) -> tuple[int, ...]:
    array = own_rows(part) if is_laid_out(part) else _array(part, place).numpy()
    if array.size and array.dtype.kind not in "iu":
        raise place.refused(value_text(array), "cast them if they are whole numbers")
    if array.dtype.kind == "u" and array.size and int(array.max()) > _IDS_MAX:
        raise ValueError(f"{place.call} got {int(array.max())} in {place.what}: ids fit into int64; use a shorter hash")
    return tuple(array.ravel().tolist())


def _parts(strategy: Any, value: Any) -> tuple[tuple[Any, ...], bool]:
    import tensorflow as tf

    if hasattr(value, "result") and hasattr(value, "update_state"):  # a Keras metric
        value = value.result()
    if isinstance(value, tf.distribute.experimental.coordinator.RemoteValue):
        value = value.fetch()
    if isinstance(value, tf.distribute.DistributedValues) and not isinstance(value, tf.Variable):
        return tuple(strategy.experimental_local_results(value)), True
    return (value,), False


def _array(value: Any, place: ValuePlace) -> Array:
    """The numbers of one tensor, variable, array or number, dense or with the lengths of its rows."""
    import tensorflow as tf

    value = tensor_of(value)
    if isinstance(value, tf.RaggedTensor):
        check_dtype(value, value.dtype.name, place)
        rows = tuple(tuple(lengths.numpy().tolist()) for lengths in value.nested_row_lengths())
        return Array.of(value.flat_values.numpy(), rows)
    if isinstance(value, tf.IndexedSlices):
        check_dtype(value, value.dtype.name, place)
        if value.dense_shape is None:
            raise place.refused(value_text(value), "it has no dense_shape")
        value = tf.convert_to_tensor(value)
    if isinstance(value, (tf.Tensor, tf.Variable)) and hasattr(value, "numpy"):
        check_dtype(value, value.dtype.name, place)
        if is_laid_out(value):
            return Array.of(copies_of(value)[0])
        return Array.of(value.numpy())
    if isinstance(value, tf.Tensor) and not is_keras_variable(value):
        raise place.refused(value_text(value), "it has no value outside of the graph that it is part of")
    return Array.of(array_of(value, place))
