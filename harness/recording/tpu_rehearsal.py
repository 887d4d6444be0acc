"""A rehearsal for a TPU: XLA compiles whatever replicas run, and what a TPU would not take is refused with its line.

A TPU runs a step as one compiled program, in which every shape is fixed and every operation is XLA's. On a CPU XLA
takes more: it compiles an operation whose result has as many rows as its values say. So the graph of each step is
looked at as well. It is computed on the CPU, by one replica, and so says nothing of a TPU's arithmetic, of its cores
together, or of its memory.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.recording.watch.places import Places
from simulator.agent.places import place

_XLA = "XLA_CPU_JIT"
# What has no kernel since it is done when a function is compiled: its arguments and results.
_ARGUMENTS = ("Placeholder", "_Arg", "_Retval")
# Their results are for other shapes than TensorFlow infers, or for XLA to know, and none is a step's own value.
_NO_SHAPES = ("BroadcastGradientArgs", "BroadcastArgs", "TensorList", "Stack", "VariableShape")
_SHAPES = "a step on a TPU has fixed shapes"


class TpuRefused(Exception):
    """Raised in a rehearsal when a step cannot be compiled for a TPU; the message has the line that made it so."""


@dataclass
class Rehearsal:
    """What a strategy's replicas have run, each function compiled once.

    Attributes:
        traced: how many steps were compiled, one for each function and each shape of its arguments.
    """

    places: Places = field(default_factory=Places)
    traced: int = 0
    refusal: TpuRefused | None = None
    _compiled: dict[Any, Any] = field(default_factory=dict)

    def around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Strategy.run` of which XLA compiles the function."""
        from tensorflow.python.autograph.core import ag_ctx
        from tensorflow.python.autograph.impl import api

        def run(fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            given = api.tf_convert(fn, ag_ctx.control_status_ctx(), convert_by_default=False)
            return original(self._compile(fn, given), args, kwargs, options)

        return _as_it_is(run)

    def _compile(self, fn: Any, given: Any) -> Any:
        import tensorflow as tf

        if fn not in self._compiled:

            def step(*args: Any, **kwargs: Any) -> Any:
                result = given(*args, **kwargs)
                self.traced += 1
                try:
                    self._look(tf.compat.v1.get_default_graph())
                except TpuRefused as refusal:
                    self.refusal = refusal
                    raise
                return result

            compiled = tf.function(_as_it_is(step), jit_compile=True)

            def call(*args: Any, **kwargs: Any) -> Any:
                return compiled(*args, **kwargs)

            # A plain function: what is no such is converted, and `run` would do that anew at each call.
            self._compiled[fn] = _as_it_is(call)
        return self._compiled[fn]

    def _look(self, graph: Any) -> None:
        """At a step's graph, the inside of its loops and functions included.

        Raises:
            TpuRefused: it has something that a TPU does not take.
        """
        for tensor in graph.inputs:
            if _is_value(tensor) and not tensor.shape.is_fully_defined():
                raise TpuRefused(
                    f"{self._called_from()} gives a step {tensor.dtype.name} of the shape {tensor.shape}, and "
                    f"{_SHAPES}; of a dataset take batch(..., drop_remainder=True)"
                )
        self._inside(graph, set())

    def _inside(self, graph: Any, known: set[int]) -> None:
        if id(graph) in known:
            return
        known.add(id(graph))
        for operation in graph.get_operations():
            inner = _called(operation)
            for each in inner:
                self._inside(each, known)
            if operation.type not in _ARGUMENTS and not _has_kernel(operation.type):
                raise TpuRefused(
                    f"{self._line(operation)} makes {operation.type}, which runs on the host: XLA has no kernel for "
                    "it, and a step on a TPU is compiled as a whole; move it out of what strategy.run is given"
                )
            if not inner and (result := _of_no_fixed_shape(operation)) is not None:
                raise TpuRefused(
                    f"{self._line(operation)} makes {operation.type}, whose result has the shape {result.shape}, as "
                    f"its values say, and {_SHAPES}; keep all rows and give those that do not count the weight 0"
                )

    def _line(self, operation: Any) -> str:
        """The innermost line of the program's own that made an operation."""
        for frame in reversed(operation.traceback or ()):
            if self.places.is_own(frame.filename):
                return _shown(frame.filename, frame.lineno)
        return f"operation {operation.name}"

    def _called_from(self) -> str:
        frame = self.places.caller()
        found = None if frame is None else self.places.frames[frame]
        return "strategy.run" if found is None else _shown(found.file, found.line)


@contextlib.contextmanager
def tpu_rehearsal(strategy: Any) -> Iterator[Rehearsal]:
    """Have XLA compile what this strategy's replicas run in this context, and refuse what a TPU would.

    Args:
        strategy: of one replica.

    Raises:
        TpuRefused: a step that a TPU would not take, or no step at all.
    """
    import tensorflow as tf

    # XLA registers its kernels when it first compiles anything.
    tf.function(lambda: tf.ones(()) + 1.0, jit_compile=True)()
    rehearsal = Rehearsal()
    strategy.run = rehearsal.around(functools.partial(_run_of, strategy))
    try:
        yield rehearsal
        if not rehearsal.traced:
            raise TpuRefused("the program never called strategy.run: nothing of it would run on a TPU's cores")
    except Exception:
        # On its way through AutoGraph it has become another exception, or got other words before its own.
        if rehearsal.refusal is not None:
            raise rehearsal.refusal from None
        raise
    finally:
        del strategy.run


def _run_of(strategy: Any, *args: Any) -> Any:
    """The class's, which others may have patched since."""
    return type(strategy).run(strategy, *args)


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    import tensorflow as tf

    made: Callable[..., Any] = tf.autograph.experimental.do_not_convert(function)
    return made


@functools.cache
def _has_kernel(operation: str) -> bool:
    from tensorflow.python.framework import kernels

    return any(kernel.device_type == _XLA for kernel in kernels.get_registered_kernels_for_op(operation).kernel)


def _called(operation: Any) -> list[Any]:
    """The graphs of the functions that an operation calls, as far as this process has made them."""
    names = [value.func.name for value in operation.node_def.attr.values() if value.WhichOneof("value") == "func"]
    functions = (operation.graph._get_function(name) for name in names)  # noqa: SLF001 - nothing public finds them
    graphs = (getattr(function, "graph", None) for function in functions)
    return [graph for graph in graphs if graph is not None]


def _is_value(tensor: Any) -> bool:
    import tensorflow as tf

    return tensor.dtype not in (tf.resource, tf.variant)


def _of_no_fixed_shape(operation: Any) -> Any:
    """The first result whose shape is not known although those of all that goes in are; else None."""
    if operation.type.startswith(_NO_SHAPES) or not all(map(_is_value, operation.inputs)):
        return None
    if not operation.inputs or not all(tensor.shape.is_fully_defined() for tensor in operation.inputs):
        return None
    results = (tensor for tensor in operation.outputs if _is_value(tensor))
    return next((tensor for tensor in results if not tensor.shape.is_fully_defined()), None)


def _shown(file: str, line: int) -> str:
    return f"{place(Path(file).name, line)}: {linecache.getline(file, line).strip()}".rstrip(": ")
