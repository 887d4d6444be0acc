"""Puts the shards of a partitioned variable together, by what TensorFlow says of them and not by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.recording.tensors import tensor_of

# As the partitioner of ParameterServerStrategy names shards.
_PART = re.compile(r"/part_\d+")


@dataclass
class Group:
    """A variable: one, or the shards of a partitioned one in their order."""

    name: str
    shards: list[Any] = field(default_factory=list)


def grouped(strategy: Any, variables: Sequence[Any]) -> list[Group]:
    """One group for each variable in this list, in which a partitioned one may stand whole or shard by shard.

    A shard is what a `ShardedVariable` holds. The slots that legacy tf_keras optimizers keep for each shard are in no
    such object; they are known by a name that contains the whole name of a shard in the list.
    """
    import tensorflow as tf

    groups: list[Group] = []
    open_groups: dict[Any, list[Group]] = {}
    flat = [shard for variable in variables for shard in _shards_of(variable)]
    shard_names = (
        {name_of(shard): _base(name_of(shard)) for shard in flat if _container(shard) is not None}
        if isinstance(strategy, tf.distribute.ParameterServerStrategy)
        else {}
    )
    for position, variable in enumerate(flat):
        name = name_of(variable) or f"variable[{position}]"
        container = _container(variable)
        owner = None if container is not None else _owner(name, shard_names)
        key = id(container) if container is not None else owner
        if key is None:
            groups.append(Group(name, [variable]))
            continue
        base = _base(name) if owner is None else owner
        # A variable that is listed twice has two groups.
        for group in open_groups.setdefault(key, []):
            if not any(shard is variable for shard in group.shards):
                group.shards.append(variable)
                break
        else:
            groups.append(Group(base, [variable]))
            open_groups[key].append(groups[-1])
    for group in groups:
        _sort(group)
    return groups


def name_of(variable: Any) -> str:
    """The path of a Keras 3 variable, or TensorFlow's name without `:0`; empty if there is none."""
    # A distributed variable would be read for an attribute that it has not, which may be a collective, or not allowed.
    path = variable.path if hasattr(type(variable), "path") else None
    name = path or getattr(variable, "name", None)
    return "" if name is None else str(name).partition(":")[0]


def _shards_of(variable: Any) -> list[Any]:
    inner = tensor_of(variable)
    return list(inner.variables) if is_sharded(inner) else [variable]


def whole_of(variable: Any) -> tuple[Any, str] | None:
    """The partitioned variable that this one is a shard of, and its name; None of any other variable."""
    container = _container(variable)
    return None if container is None else (container, _base(name_of(variable)))


def is_sharded(variable: Any) -> bool:
    """Whether parameter servers have shards of it, each with some of its rows."""
    from tensorflow.python.distribute.sharded_variable import ShardedVariable

    return isinstance(variable, ShardedVariable)


def _container(variable: Any) -> Any:
    """The partitioned variable that this is a shard of, or None."""
    # What else is asked of a replicated variable is asked of a copy, which only its own strategy can tell.
    reference = vars(tensor_of(variable)).get("_sharded_container")
    container = reference() if callable(reference) else None
    return container if is_sharded(container) else None


def _base(name: str) -> str:
    return _PART.sub("", name, count=1)


def _owner(name: str, shard_names: dict[str, str]) -> str | None:
    """The name without the number of the shard that it is of, if it is a slot of one."""
    for shard, base in shard_names.items():
        if name != shard and f"/{shard}/" in f"/{name}/":
            return f"/{name}/".replace(f"/{shard}/", f"/{base}/", 1).strip("/")
    return None


def _sort(group: Group) -> None:
    if len(group.shards) < 2 or (container := _container(group.shards[0])) is None:
        return
    order = {id(shard): number for number, shard in enumerate(container.variables)}
    group.shards.sort(key=lambda shard: order.get(id(tensor_of(shard)), len(order)))
