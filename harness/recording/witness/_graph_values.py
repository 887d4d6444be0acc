"""How values leave a graph: by one op that calls Python, which takes about as long for a large tensor as for a small.

So the tensors of a step go through it joined, one for each dtype, and are taken apart in Python.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from harness.recording.side_operations import run_beside
from harness.recording.witness._switch import FIRST, Switch

Take = Callable[[Sequence[Any]], None]


class ValueBatch:
    """Numbers of one graph, and who gets which.

    Args:
        graph: in which they are.
        switch: whether numbers are wanted of the step that is being made. Of most steps they are not, and then they
            stay where they are.
    """

    def __init__(self, graph: Any, switch: Switch) -> None:
        self.graph = graph
        self._switch = switch
        self._numbers: dict[str, _Taken] = {}

    def add(self, tensors: Sequence[Any], take: Take) -> None:
        """Hand the values of these over to a taker of their own, at steps of which numbers are kept."""
        self._numbers.setdefault(_place(tensors), _Taken()).add(tensors, take)

    def leave(self, by: Callable[[Sequence[Any], Take], None] | None) -> None:
        """Build what hands them over; where `by` is given, that does, at every step."""
        import tensorflow as tf

        if by is not None:
            every = _Taken()
            for some in self._numbers.values():
                every.add(some.tensors, some.take)
            if every.tensors:
                by(every.tensors, every.take)
            return
        # What is on another device would be sent to that of the op at each step, wanted or not.
        for place, numbers in self._numbers.items():
            with tf.device(place):
                handed = tf.cond(self._switch.is_on(place), numbers.handing_over(place), lambda: tf.constant(False))
            for branching in handed.op.inputs:  # what a branch gives is passed on by an Identity
                run_beside(branching.op)


class _Taken:
    """Tensors, and takers of consecutive ones."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self._takers: list[tuple[int, Take]] = []

    def add(self, tensors: Sequence[Any], take: Take) -> None:
        self.tensors += tensors
        self._takers.append((len(tensors), take))

    def handing_over(self, place: str) -> Callable[[], Any]:
        """As a branch of a graph."""
        import tensorflow as tf

        def branch() -> Any:
            emit(self.tensors, self.take, place)
            return tf.constant(True)

        return branch

    def take(self, values: Sequence[Any]) -> None:
        """The values of all tensors, in their order."""
        begin = 0
        for count, take in self._takers:
            take(values[begin : begin + count])
            begin += count


class _Joined:
    """Tensors of one dtype and of known shapes, one after another: where each begins is found once, not each time."""

    def __init__(self, places: list[int], shapes: list[tuple[int, ...]]) -> None:
        self.places = places
        ends = list(itertools.accumulate(math.prod(shape) for shape in shapes))
        self._parts = list(zip(places, [0, *ends[:-1]], ends, shapes, strict=True))

    def put(self, values: Any, into: list[Any]) -> None:
        """Each tensor's value to its place."""
        for place, begin, end, shape in self._parts:
            into[place] = values[begin:end].reshape(shape)


def is_processor(device: str) -> bool:
    """Whether a device of this name is one of a CPU, where Python can be called."""
    import tensorflow as tf

    return bool(tf.DeviceSpec.from_string(device).device_type == "CPU")


def _place(tensors: Sequence[Any]) -> str:
    """The device of all of these where Python can be called, or the first one that there is."""
    devices = {tensor.device for tensor in tensors}
    return devices.pop() if len(devices) == 1 and is_processor(min(devices)) else FIRST


def emit(tensors: Sequence[Any], take: Take, device: str = FIRST) -> None:
    """Call `take` on a device with the values of tensors each time that the graph is run which is being built."""
    import tensorflow as tf

    joined: dict[Any, list[int]] = {}
    single = []
    for place, tensor in enumerate(tensors):
        if tensor.shape.is_fully_defined() and tensor.dtype not in (tf.resource, tf.variant):
            joined.setdefault(tensor.dtype, []).append(place)
        else:
            single.append(place)
    groups = [_Joined(places, [tuple(tensors[place].shape) for place in places]) for places in joined.values()]

    def called(*values: Any) -> Any:
        found: list[Any] = [None] * len(tensors)
        for group, value in zip(groups, values, strict=False):
            group.put(value, found)
        for place, value in zip(single, values[len(groups) :], strict=True):
            found[place] = value
        take(found)
        return []

    with tf.device(device):
        flat = [tf.concat([tf.reshape(tensors[place], [-1]) for place in group.places], 0) for group in groups]
        given = [*flat, *(tensors[place] for place in single)]
        run_beside(tf.numpy_function(called, given, [], stateful=True))
