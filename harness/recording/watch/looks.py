"""Looks at what operations of a graph give, at many of them by one operation beside the program's own.

Every operation of a graph is kept several times while the graph is prepared and run: one that looks for each of the
program's took more memory than the program itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.recording.closure_files import Files
from harness.recording.noise.protocol import patched
from harness.recording.side_operations import run_beside

TOGETHER = 64
"""At most so many tensors are looked at together: all of them are kept until the last one is there."""

TOGETHER_BYTES = 1 << 21
"""And no more once they hold so much, as far as their shapes are known."""


class Looks:
    """Has a function called with what tensors of graphs hold, each time that they do.

    Args:
        seen: called with the numbers of tensors and their values, in threads of TensorFlow's own, or by `collect`.
        files: how they leave graphs that another process may run, where no Python of this one is.
    """

    def __init__(self, seen: Callable[[Sequence[int], Sequence[Any]], None], files: Files | None = None) -> None:
        self._seen = seen
        self._files = files
        # By graph, and by the device that looks: tensors with their numbers.
        self._waiting: dict[int, dict[str, list[tuple[int, Any]]]] = {}

    @contextlib.contextmanager
    def active(self, aside: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[None]:
        """Look at what is still waiting when a graph is complete, of which nothing else notes that (`aside`)."""
        from tensorflow.python.framework import auto_control_deps, ops

        def complete(original: Callable[..., Any]) -> Callable[..., Any]:
            def leave(manager: Any, kind: Any, *error: Any) -> Any:
                graph = ops.get_default_graph()
                devices = self._waiting.pop(id(graph), {})
                if kind is None:
                    with aside():
                        for device, waiting in devices.items():
                            self._look(device, waiting)
                return original(manager, kind, *error)

            return leave

        with patched(auto_control_deps.AutomaticControlDependencies, "__exit__", complete):
            yield

    def at(self, graph: Any, numbers: Sequence[int], tensors: Sequence[Any]) -> None:
        """Look at these tensors of a graph that is being made, by their numbers."""
        device = _device(tensors[0])
        pairs = list(zip(numbers, tensors, strict=True))
        if any(each.graph is not graph for each in tensors):
            self._look(device, pairs)
            return
        waiting = self._waiting.setdefault(id(graph), {}).setdefault(device, [])
        waiting += pairs
        # Arguments are there before a manager is: what looks at them before that would not be carried out.
        managed, given = graph.experimental_acd_manager is not None, tensors[0].op.type == "Placeholder"
        full = len(waiting) >= TOGETHER or sum(_bytes(each) for _, each in waiting) >= TOGETHER_BYTES
        # Nothing says when one is complete that has no manager, such as that of a branch's gradient.
        if full if managed else not given:
            self._look(device, waiting)
            waiting.clear()

    def collect(self) -> None:
        """Hand over what has left graphs by files since."""
        if self._files is not None:
            self._files.collect()

    def _look(self, device: str, waiting: Sequence[tuple[int, Any]]) -> None:
        import tensorflow as tf

        if not waiting:
            return
        numbers = tuple(number for number, _ in waiting)

        def look(*values: Any) -> None:
            self._seen(numbers, values)

        if self._files is not None:
            run_beside(self._files.emit([tensor for _, tensor in waiting], lambda values: look(*values)))
            return
        with tf.device(device):
            run_beside(tf.numpy_function(look, [tensor for _, tensor in waiting], [], stateful=True))


def _device(tensor: Any) -> str:
    """Where a tensor is looked at: where it is, so that it need not be sent, but for those that no CPU has."""
    return tensor.device if "CPU" in tensor.device else "/device:CPU:0"


def _bytes(tensor: Any) -> int:
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size if tensor.shape.rank is not None else 0
