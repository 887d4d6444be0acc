"""Tensors and variables that DTensor has laid out over a mesh: what each local device has of them, and the whole.

They are read and set device by device, by `unpack`, and never by an operation of DTensor's: such a one believes that
the copies along an axis are equal, and gives that of the first device to all.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class CopiesDiffer(ValueError):
    """The devices of a mesh have different copies of what is laid out as one tensor, so that there is no whole."""


@dataclass(frozen=True)
class Shard:
    """What one device has of a variable.

    Attributes:
        handle: of the variable that stands there.
        dtype: of its values.
        device: its name.
    """

    handle: Any
    dtype: Any
    device: str

    def numpy(self) -> np.ndarray[Any, Any]:
        """Its values."""
        import numpy as np
        import tensorflow as tf

        with tf.device(self.device):
            return np.asarray(tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self.dtype))


def is_laid_out(value: Any) -> bool:
    """Whether this is a tensor, or a variable, on a mesh."""
    import tensorflow as tf
    from tensorflow.dtensor.python import api
    from tensorflow.python.framework import ops

    if api._dtensor_singleton is None:  # noqa: SLF001 - to ask DTensor would begin it
        return False
    held = value.handle if isinstance(value, tf.Variable) else value
    return isinstance(held, ops.EagerTensor) and bool(api.is_dtensor(held))


def shards_of(variable: Any) -> tuple[Shard, ...]:
    """The shards of a variable, by local device, when all that was asked of DTensor has been done.

    DTensor's operations are asynchronous, and who reads what a device has does not wait for them.
    """
    from tensorflow.experimental import dtensor
    from tensorflow.python.eager import context

    context.async_wait()

    return tuple(Shard(handle, variable.dtype.base_dtype, handle.device) for handle in dtensor.unpack(variable.handle))


def unpacked(value: Any) -> list[np.ndarray[Any, Any]]:
    """What each local device has of a tensor or of a variable."""
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    return [part.numpy() for part in (shards_of(value) if isinstance(value, tf.Variable) else dtensor.unpack(value))]


def shards_by_device(value: Any) -> list[tuple[tuple[int, ...], np.ndarray[Any, Any]]]:
    """Which shard each local device has of a tensor or of a variable, and its values."""
    return list(zip(local_shards(_layout(value)), unpacked(value), strict=True))


def own_rows(value: Any) -> np.ndarray[Any, Any]:
    """The rows of a tensor that this client's devices have and no earlier client's: each row belongs to one client."""
    import numpy as np

    layout, parts = _layout(value), unpacked(value)
    first = layout.mesh.local_device_ids()[0] - layout.mesh.min_global_device_id()
    earlier = {shard[0] for shard in layout.offset_to_shard()[:first]}
    rows = {shard[0]: part for shard, part in zip(local_shards(layout), parts, strict=True) if shard[0] not in earlier}
    return np.concatenate([rows[number] for number in sorted(rows)] or [parts[0][:0]])


def numbers_of(tensor: Any) -> np.ndarray[Any, Any]:
    """The numbers of a tensor, of one on a mesh those of the whole.

    Raises:
        CopiesDiffer: its copies along an axis of the mesh differ.
    """
    import numpy as np

    if not is_laid_out(tensor):
        return np.asarray(tensor.numpy())
    first, *others = copies_of(tensor)
    if any(first.tobytes() != other.tobytes() for other in others):
        raise CopiesDiffer("the devices of the mesh have different copies of what is laid out as one tensor")
    return first


def copies_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """The wholes of a tensor or variable; see `wholes`."""
    return wholes(value, unpacked(value))


def wholes(value: Any, parts: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """As often the whole as the mesh has copies of each shard, the first one of the first copies.

    Where other clients have some of the shards, all of them have to ask for it.

    Args:
        value: whose layout it is.
        parts: of each local device, as of `unpacked`.
    """
    import numpy as np
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    layout = _layout(value)
    copies: dict[tuple[int, ...], list[np.ndarray[Any, Any]]] = {}
    for shard, part in zip(local_shards(layout), parts, strict=True):
        copies.setdefault(shard, []).append(part)
    if len(copies) < math.prod(map(layout.num_shards, range(layout.rank))):
        whole = dtensor.Layout.replicated(layout.mesh, layout.rank)
        return unpacked(dtensor.relayout(tf.convert_to_tensor(value), whole))
    found = []
    for number in range(min(map(len, copies.values()))):
        whole = np.empty(tuple(value.shape), parts[0].dtype)
        for shard, each in copies.items():
            whole[_place(shard, each[number].shape)] = each[number]
        found.append(whole)
    return found


def set_shards(variable: Any, values: Sequence[np.ndarray[Any, Any]]) -> None:
    """Set a variable to a whole, or to one for each copy, as of `wholes`."""
    import numpy as np
    import tensorflow as tf

    layout, seen = _layout(variable), Counter[tuple[int, ...]]()
    shape = [size // layout.num_shards(axis) for axis, size in enumerate(tuple(variable.shape))]
    for shard, at in zip(shards_of(variable), local_shards(layout), strict=True):
        value = np.array(values[seen[at] % len(values)][_place(at, shape)])
        with tf.device(shard.device):
            tf.raw_ops.AssignVariableOp(resource=shard.handle, value=tf.constant(value, shard.dtype))
        seen[at] += 1


def _layout(value: Any) -> Any:
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    return dtensor.fetch_layout(value.handle if isinstance(value, tf.Variable) else value)


def local_shards(layout: Any) -> list[tuple[int, ...]]:
    """Which shard each local device has, by its number along each axis of what is laid out."""
    first = layout.mesh.min_global_device_id()
    shards = layout.offset_to_shard()
    return [tuple(shards[device - first]) for device in layout.mesh.local_device_ids()]


def _place(shard: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """Where a shard of this shape stands in the whole."""
    return tuple(slice(at * size, (at + 1) * size) for at, size in zip(shard, shape, strict=True))
