"""Garbage for everything before a restore, and the comparison bit for bit with what was saved after it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def variables_of(root: Any) -> dict[str, Any]:
    """Every variable that a `tf.train.Checkpoint` of this object holds, by its path from there.

    The paths are those of the checkpoint's object graph, which no strategy changes; names of variables are.
    """
    import tensorflow as tf

    view = tf.train.TrackableView(root)
    found: dict[str, Any] = {}
    seen = {id(root)}
    queue = deque([("", root)])
    while queue:
        path, parent = queue.popleft()
        for name, child in view.children(parent).items():
            if id(child) in seen:
                continue
            seen.add(id(child))
            if isinstance(variable := _tensorflow(child), tf.Variable) or _sharded(variable):
                found[f"{path}{name}"] = variable
                seen |= {id(variable), *(id(shard) for shard in _shards(variable))}
            else:
                queue.append((f"{path}{name}/", child))
    return found


def _tensorflow(trackable: Any) -> Any:
    """The TensorFlow variable inside a Keras 3 variable; anything else as it is."""
    kinds = {kind.__name__ for kind in type(trackable).__mro__ if kind.__module__.startswith("keras.")}
    return trackable.value if "Variable" in kinds else trackable


def _sharded(trackable: Any) -> bool:
    return type(trackable).__name__ == "ShardedVariable"  # TensorFlow has no public name for it


def _shards(variable: Any) -> list[Any]:
    """The variables that make up this one: itself, or the shards of a partitioned one."""
    return list(variable.variables) if _sharded(variable) else [variable]


def clobber(variables: Mapping[str, Any]) -> None:
    """Assign to every variable what no training leaves there: -7 everywhere, 113 in unsigned ones."""
    import tensorflow as tf

    for variable in variables.values():
        for shard in _shards(variable):
            value = 113 if shard.dtype.is_unsigned else -7
            shard.assign(tf.cast(tf.fill(shard.shape, value), shard.dtype))


def read(strategy: Any, variables: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Every variable's value as a list of NumPy arrays: each copy that this process holds, or the sum over replicas.

    A variable in shards counts as the whole. Every worker has to call it, because summing
    needs all of them.
    """
    import numpy as np
    import tensorflow as tf

    found = {}
    for name, variable in variables.items():
        shards = _shards(variable)
        if len(shards) > 1:
            found[name] = [np.concatenate([shard.numpy() for shard in shards])]
        elif getattr(shards[0], "synchronization", None) == tf.VariableSynchronization.ON_READ:
            found[name] = [np.asarray(shards[0].read_value() if strategy.num_replicas_in_sync > 1 else shards[0])]
        else:
            found[name] = [np.asarray(copy) for copy in strategy.experimental_local_results(shards[0])]
    return found


def write(path: Path, values: Mapping[str, list[Any]]) -> None:
    """Keep what is being saved, so that what is restored can be compared with it."""
    import numpy as np

    np.savez(path, **{name.replace("/", "|"): copies[0] for name, copies in values.items()})


def differing(path: Path, values: Mapping[str, list[Any]]) -> dict[str, float]:
    """For every variable in the file, how many elements of its worst copy have other bits than what was saved."""
    import numpy as np

    with np.load(path) as file:
        kept = {name.replace("|", "/"): file[name] for name in file.files}
    count = {}
    for name, saved in kept.items():
        copies = values.get(name, [])
        same_form = copies and all((copy.shape, copy.dtype) == (saved.shape, saved.dtype) for copy in copies)
        wrong = [np.any(_bits(copy) != _bits(saved), axis=1).sum() for copy in copies] if same_form else [saved.size]
        count[name] = float(max(wrong))
    return count


def _bits(array: Any) -> Any:
    """One row of bytes for each element."""
    import numpy as np

    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).reshape(array.size, -1)
