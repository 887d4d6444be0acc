"""Under DTensor no Python can be called in a graph: no value leaves one, and nobody knows what a step draws.

What a program packs is given eagerly, and is looked at.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.layouts import local_shards
from harness.recording.patches import patched
from harness.recording.watch.places import Places
from harness.recording.witness.draws import operations
from harness.recording.witness.protocol import WitnessState
from harness.subject.strategies.dtensor import MeshStrategy

__all__ = ["active"]

_UNSEEN = "values inside of a function under DTensor, which holds no Python"
_DRAWS = "it draws random numbers in a function under DTensor, which depend on the mesh and on layouts"


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Place nothing in graphs of a mesh in this context, and tell that steps draw there."""
    if not isinstance(gathered.strategy, MeshStrategy):
        yield
        return
    from tensorflow.experimental import dtensor

    with contextlib.ExitStack() as stack:
        stack.enter_context(gathered.cannot_see(_UNSEEN))
        stack.enter_context(patched(dtensor, "pack", _packing(gathered)))
        if gathered.steps is not None:
            _enter_draws(gathered, stack)
        yield


def _packing(gathered: WitnessState) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Note the lines that pack different copies of one shard, which DTensor believes to be equal."""
    places = Places()

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def pack(tensors: Any, layout: Any) -> Any:
            with gathered.looking("what is packed"):
                shards: dict[tuple[int, ...], set[bytes]] = {}
                for shard, part in zip(local_shards(layout), tensors, strict=False):
                    shards.setdefault(shard, set()).add(part.numpy().tobytes())
                if any(len(copies) > 1 for copies in shards.values()):
                    gathered.noted.packed.setdefault(places.line() or "", gathered.number)
            return original(tensors, layout)

        return pack

    return around


def _enter_draws(gathered: WitnessState, stack: contextlib.ExitStack) -> None:
    """A graph that draws, and in which a tape is asked for gradients, is a step that draws."""
    import tensorflow as tf

    drawing: weakref.WeakSet[Any] = weakref.WeakSet()
    training: weakref.WeakSet[Any] = weakref.WeakSet()

    def passing(graphs: weakref.WeakSet[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                found = original(*args, **options)
                if not tf.executing_eagerly() and not gathered.draws_nothing:
                    graphs.add(graph := _outermost())
                    if gathered.steps is not None and graph in drawing and graph in training:
                        gathered.steps.blind(_DRAWS)
                return found

            return call

        return around

    stack.enter_context(patched(tf.GradientTape, "gradient", passing(training)))
    for module, name in operations():
        stack.enter_context(patched(module, name, passing(drawing)))


def _outermost() -> Any:
    """The graph of the function that is being traced, and not of one that this calls."""
    from tensorflow.python.framework import func_graph, ops

    graph = ops.get_default_graph()
    while isinstance(outer := getattr(graph, "outer_graph", None), func_graph.FuncGraph):
        graph = outer
    return graph
