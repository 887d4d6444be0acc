"""Under DTensor no Python can be called in a graph: no value leaves one, and what it draws is drawn whole.

What a program packs is given eagerly, and is looked at.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.layouts import is_laid_out
from harness.recording.packing import unlike_copies_heard
from harness.recording.patches import patched
from harness.recording.random_operations import random_operations
from harness.recording.witness.protocol import WitnessState
from harness.subject.strategies.dtensor import MeshStrategy

_UNSEEN = "values inside of a function under DTensor, which holds no Python"
_DRAWS = "it draws random numbers in a function that no tensor on the mesh is given to, so that DTensor chooses them"


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Place nothing that calls Python in graphs of a mesh in this context, and have them draw as one device does."""
    if not isinstance(gathered.strategy, MeshStrategy):
        yield
        return
    import tensorflow as tf
    from tensorflow.python.eager.polymorphic_function import polymorphic_function

    def packed(line: str) -> None:
        gathered.noted.packed.setdefault(line, gathered.number)

    with contextlib.ExitStack() as stack:
        stack.enter_context(gathered.cannot_see(_UNSEEN))
        stack.enter_context(unlike_copies_heard(packed, functools.partial(gathered.looking, "what is packed")))
        draws = _Draws(gathered, gathered.strategy.mesh)
        stack.enter_context(patched(polymorphic_function.Function, "__call__", draws.calling))
        stack.enter_context(patched(tf.GradientTape, "gradient", draws.differentiating))
        for module, name in random_operations():
            stack.enter_context(patched(module, name, draws.drawing))
        yield


class _Draws:
    """What graphs draw: by the program's seeds what one device draws, where they are known to be run on the mesh.

    DTensor draws each shard of what is laid out by itself, so that the numbers would depend on mesh and layouts. What
    lays a draw out whole fails in a graph that is not run on the mesh, such as one of `tf.data`. So the call of a
    function with tensors on the mesh has to tell. Of other graphs that draw, nobody can judge those that train.
    """

    def __init__(self, gathered: WitnessState, mesh: Any) -> None:
        self._gathered = gathered
        self._mesh = mesh
        self._on_mesh = False
        self._drawing: weakref.WeakSet[Any] = weakref.WeakSet()
        self._training: weakref.WeakSet[Any] = weakref.WeakSet()

    def calling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around the call of a function."""
        import tensorflow as tf

        def call(*args: Any, **options: Any) -> Any:
            before = self._on_mesh
            if tf.executing_eagerly() and self._gathered.threads.is_main:
                self._on_mesh = any(map(is_laid_out, tf.nest.flatten((args[1:], options))))
            try:
                return original(*args, **options)
            finally:
                self._on_mesh = before

        return call

    def drawing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around a random operation."""
        import tensorflow as tf
        from tensorflow.experimental import dtensor

        def draw(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if tf.executing_eagerly():
                return found
            if self._on_mesh and isinstance(found, tf.Tensor) and found.shape.rank is not None:
                return dtensor.relayout(found, dtensor.Layout.replicated(self._mesh, found.shape.rank))
            self._pass(self._drawing)
            return found

        return draw

    def differentiating(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Around what a tape is asked for."""
        import tensorflow as tf

        def gradient(*args: Any, **options: Any) -> Any:
            if not tf.executing_eagerly():
                self._pass(self._training)
            return original(*args, **options)

        return gradient

    def _pass(self, graphs: weakref.WeakSet[Any]) -> None:
        if self._gathered.steps is None or self._gathered.draws_nothing:
            return
        graphs.add(graph := _outermost())
        if graph in self._drawing and graph in self._training:
            self._gathered.steps.blind(_DRAWS)


def _outermost() -> Any:
    """The graph of the function that is being traced, and not of one that this calls."""
    from tensorflow.python.framework import func_graph, ops

    graph = ops.get_default_graph()
    while isinstance(outer := getattr(graph, "outer_graph", None), func_graph.FuncGraph):
        graph = outer
    return graph
