"""A training function carried out on a few examples, after which the variables are set back: to show an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.evidence.trace import Array
from harness.recording.tracing.arguments import Handles, Yielded

_ELEMENTS_MAX = 1 << 14


class TrialBatch(msgspec.Struct, frozen=True):
    """A batch: of which rows of the first one, for each replica of this process; of the reference all in one.

    Attributes:
        rows: see above.
        anew: whether it is given to the function as the program would trace it: for just so many rows.
        zeros: whether zeros stand for their floating numbers.
    """

    rows: tuple[tuple[int, ...], ...]
    anew: bool = False
    zeros: bool = False

    def taken(self, value: Any, rows: Sequence[int]) -> Any:
        """These rows of a tensor."""
        import tensorflow as tf

        found = tf.gather(value, list(rows))
        return tf.zeros_like(found) if self.zeros and found.dtype.is_floating else found


class BatchOutcome(msgspec.Struct, frozen=True):
    """What came of a batch.

    Attributes:
        before: what each copy of each variable held.
        after: what it held then, and the results of the function, each by its name.
        failed: why it could not be carried out.
    """

    before: dict[str, tuple[Array, ...]] = {}
    after: dict[str, tuple[Array, ...]] = {}
    failed: str | None = None


def write_outcomes(path: Path, outcomes: Sequence[BatchOutcome]) -> None:
    """Write what came of all batches."""
    path.write_bytes(msgspec.msgpack.encode(list(outcomes)))


def read_outcomes(path: Path) -> tuple[BatchOutcome, ...]:
    """What was written."""
    return msgspec.msgpack.decode(path.read_bytes(), type=tuple[BatchOutcome, ...])


def tried(
    call: Callable[..., Any],
    call_anew: Callable[..., Any],
    given: Any,
    graph: Any,
    yielded: Yielded,
    handles: Handles,
    strategy: Any,
    batches: Sequence[TrialBatch],
) -> list[BatchOutcome]:
    """What the function makes of some batches, each from the variables that it was called with."""
    variables = _variables(graph, handles)
    outcomes = []
    # Of the first element of each iterator are all batches, whichever of them are tried.
    elements: dict[int, Any] = {}
    for batch in batches:
        before = {name: tuple(map(_read, copies)) for name, copies in variables.items()}
        kept = {name: list(copies) for name, copies in before.items()}
        try:
            args, options = _smaller(given, yielded, strategy, batch, elements)
            result = (call_anew if batch.anew else call)(*args, **options)
            after = {name: tuple(map(_read, copies)) for name, copies in variables.items()}
            after |= _results(result)
            outcomes.append(BatchOutcome(_as_data(before), _as_data(after)))
        except Exception as error:  # noqa: BLE001 - the program's own function, on a batch that it was not made for
            outcomes.append(
                BatchOutcome(failed=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            )
        for name, copies in variables.items():
            for handle, array in zip(copies, kept[name], strict=True):
                _write(handle, array)
    return outcomes


def _variables(graph: Any, handles: Handles) -> dict[str, list[Any]]:
    found: dict[str, list[tuple[int, Any]]] = {}
    for outer, _ in graph.captures:
        if outer.dtype.name == "resource" and (known := handles.argument(outer)) is not None:
            found.setdefault(known.name, []).append((known.replica or 0, outer))
    return {name: [handle for _, handle in sorted(copies, key=lambda each: each[0])] for name, copies in found.items()}


def _read(handle: Any) -> Any:
    from tensorflow.python.ops import gen_resource_variable_ops

    (kept,) = handle._handle_data.shape_and_type  # noqa: SLF001 - nothing public knows the dtype
    return gen_resource_variable_ops.read_variable_op(handle, kept.dtype).numpy()


def _write(handle: Any, array: Any) -> None:
    import tensorflow as tf
    from tensorflow.python.ops import gen_resource_variable_ops

    gen_resource_variable_ops.assign_variable_op(handle, tf.constant(array))


def _smaller(given: Any, yielded: Yielded, strategy: Any, batch: TrialBatch, elements: dict[int, Any]) -> Any:
    """The same arguments with other rows; `elements` holds what iterators have given, by their ids."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops
    from tensorflow.python.distribute import input_lib
    from tensorflow.python.distribute.values import PerReplica

    def smaller(value: Any) -> Any:
        if isinstance(value, PerReplica):
            return PerReplica(tuple(map(batch.taken, value.values, batch.rows)))
        if isinstance(value, tf.Tensor) and value in yielded and value.shape.rank:
            return batch.taken(value, batch.rows[0])
        if isinstance(value, (input_lib.DistributedIterator, iterator_ops.OwnedIterator)):
            if id(value) not in elements:
                elements[id(value)] = next(value)
            return _iterator(elements[id(value)], strategy, batch)
        return value

    return tf.nest.map_structure(smaller, given)


def _iterator(element: Any, strategy: Any, batch: TrialBatch) -> Any:
    """An iterator that gives the first rows of a batch, the same as on one device, shared out by the strategy."""
    import tensorflow as tf
    from tensorflow.python.distribute.values import PerReplica

    def joined(value: Any) -> Any:
        return tf.concat(value.values, 0) if isinstance(value, PerReplica) else value

    count = sum(map(len, batch.rows))
    first = tf.nest.map_structure(lambda value: batch.taken(joined(value), range(count)), element)
    dataset = tf.data.Dataset.from_tensor_slices(first).batch(count).repeat()
    return iter(strategy.experimental_distribute_dataset(dataset))


def _results(result: Any) -> dict[str, tuple[Any, ...]]:
    import numpy as np
    import tensorflow as tf
    from tensorflow.python.distribute.values import PerReplica

    if isinstance(result, tf.experimental.Optional):
        result = result.get_value()
    found = {}
    for number, value in enumerate(tf.nest.flatten(result)):
        if isinstance(value, PerReplica):
            found[f"result {number} of the function"] = tuple(np.asarray(each) for each in value.values)
        elif isinstance(value, tf.Tensor):
            found[f"result {number} of the function"] = (np.asarray(value),)
    return found


def _as_data(values: dict[str, tuple[Any, ...]]) -> dict[str, tuple[Array, ...]]:
    return {
        name: tuple(Array.of(each.reshape(-1)[:_ELEMENTS_MAX]) for each in copies)
        for name, copies in values.items()
        if copies and copies[0].dtype.kind in "fiu"
    }
