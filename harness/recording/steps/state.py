"""The variables of a program as state: what their copies are, and how they are set."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from harness.evidence.arrays import wide
from harness.evidence.steps import EvidenceReader, HeldVariable
from harness.evidence.steps.records import How
from harness.evidence.steps.store import data_of
from harness.evidence.trace import is_statistics
from harness.recording.layouts import is_laid_out, set_shards, shards_of, wholes
from harness.recording.reader import Reader
from harness.recording.shards import is_sharded

if TYPE_CHECKING:
    import numpy as np

_Named = TypeVar("_Named")


def copies_of(variable: Any) -> tuple[Any, ...]:
    """The variable of each local device that it is made of, or its shards."""
    import tensorflow as tf

    if is_sharded(variable):
        return tuple(variable.variables)
    if is_laid_out(variable):
        return shards_of(variable)
    return tuple(variable.values) if isinstance(variable, tf.distribute.DistributedValues) else (variable,)


def held_by(variable: Any, copies: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """What each copy holds; of a partitioned variable the whole, as often as there are copies of each part."""
    import numpy as np

    if is_laid_out(variable):
        return wholes(variable, copies)
    return [np.concatenate(copies)] if is_sharded(variable) else list(copies)


def held_now(
    variables: Sequence[tuple[_Named, Any]], reader: Reader
) -> Iterator[tuple[_Named, Any, list[np.ndarray[Any, Any]]]]:
    """What each copy of these holds, as of `held_by`; those are left out of which one has no value yet.

    Args:
        variables: each with what is known of it.
        reader: reads them all at once.
    """
    copies = [copies_of(variable) for _, variable in variables]
    arrays = iter(reader.read([copy for each in copies for copy in each]))
    for (named, variable), own in zip(variables, copies, strict=True):
        parts = [array for array in itertools.islice(arrays, len(own)) if array is not None]
        if len(parts) == len(own):
            yield named, variable, held_by(variable, parts)


def how_copies_are(variable: Any, copies: Sequence[np.ndarray[Any, Any]]) -> How:
    """What the copies of a variable are of the whole."""
    import tensorflow as tf

    if getattr(variable, "synchronization", None) == tf.VariableSynchronization.ON_READ:
        aggregation = getattr(variable, "aggregation", None)
        if aggregation == tf.VariableAggregation.SUM:
            return "sum"
        if aggregation == tf.VariableAggregation.MEAN:
            return "mean"
    first = data_of(copies[0])
    return "copies" if all(data_of(copy) == first for copy in copies[1:]) else "own"


def set_to(variable: Any, values: Sequence[np.ndarray[Any, Any]]) -> None:
    """Set the copies of a variable, also where its strategy would not let the program do so.

    Args:
        variable: of TensorFlow.
        values: one for all copies, or one for each.
    """
    import numpy as np
    import tensorflow as tf

    if is_laid_out(variable):
        set_shards(variable, values)
        return
    # Copies, since TensorFlow may take over the memory of an array and update it in place.
    tensors = [tf.constant(np.array(value), dtype=variable.dtype.base_dtype) for value in values]
    copies = copies_of(variable)
    if is_sharded(variable):
        tensors = tf.split(tensors[0], [copy.shape[0] for copy in copies])
    for copy, tensor in zip(copies, tensors * len(copies) if len(tensors) == 1 else tensors, strict=False):
        with tf.device(copy.device):
            tf.raw_ops.AssignVariableOp(resource=copy.handle, value=tensor)


def values_of(
    found: Sequence[tuple[EvidenceReader, HeldVariable]], replicas: int, *, as_they_are: bool = False
) -> list[np.ndarray[Any, Any]]:
    """What the copies of a variable hold for those of all tasks: one value, or one for each of several replicas.

    None where each replica of the run has something of its own, and there is one here. Of a sum each of several has
    all, unless they are `as_they_are` in the run.
    """
    import numpy as np

    if not found:
        return []
    stored = [[reader.array(copy) for copy in held.copies] for reader, held in found]
    copies = [copy for held in stored for copy in held]
    # Nobody averages the statistics of Keras 3, but it is their mean that one replica has.
    how, dtype = "mean" if is_statistics(found[0][1].name) else found[0][1].how, copies[0].dtype
    if replicas > 1 and (how in ("own", "mean") or (how == "sum" and as_they_are)):
        each = replicas // len(found)  # where all of a task are equal one was stored, as of synchronized statistics
        copies = [copy for held in stored for copy in (held * each if len(held) == 1 else held)]
        return copies if len(copies) == replicas else []
    if how == "own":
        return []
    if how == "sum":
        return [np.sum(copies, axis=0, dtype=dtype)]
    if how == "mean":
        # Tasks have as many replicas, but where those of one are equal it has stored a single copy.
        of_tasks = [np.mean(list(map(wide, held)), axis=0) for held in stored]
        return [np.mean(of_tasks, axis=0).astype(dtype)]
    return copies[:1]
