"""What replicas draw at random: each random operation of TensorFlow's in the function that they run.

What these give is told to `gathered.steps`, and the program gets what that answers.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.evidence.steps import DRAWN, StepPlace
from harness.recording.patches import patched
from harness.recording.random_operations import SHUFFLES, random_operations
from harness.recording.steps.protocol import SORTED, ReplicaDraw
from harness.recording.steps.python_calls import PYTHON, PythonCall, with_gradients
from harness.recording.witness._replica import replica_number
from harness.recording.witness.protocol import WitnessState

_ROOT = Path(__file__).parents[3]
_OURS = tuple(f"{_ROOT / name}{os.sep}" for name in ("harness", "simulator"))
_SHAPES = ("shape", "num_samples", "num_sampled")
_NO_PARAMETERS = (*_SHAPES, "seed", "seed2", "key", "counter", "alg", "algorithm", "resource", "name", "true_classes")


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Tell `gathered.steps` what replicas draw in this context."""
    from tensorflow.python.framework import random_seed
    from tensorflow.python.ops import script_ops, sort_ops, stateful_random_ops

    with contextlib.ExitStack() as stack:
        # By which the states of replicas are told apart: what is drawn from them comes after it.
        stack.enter_context(patched(stateful_random_ops.Generator, "_preprocess_key", _keyed(gathered)))
        stack.enter_context(patched(random_seed, "get_seed", _seeding(gathered, seeds := threading.local())))
        stack.enter_context(patched(script_ops, "_internal_py_func", _calling(gathered)))
        stack.enter_context(patched(script_ops, "py_func_common", _calling(gathered, at_once=True)))
        stack.enter_context(patched(sort_ops, "_sort_or_argsort", _sorting(gathered)))
        for module, name in random_operations():
            around = _shuffling if name in SHUFFLES else _drawing
            stack.enter_context(patched(module, name, around(gathered, name, seeds)))
        yield


def _replica(gathered: WitnessState) -> int | None:
    """The replica whose function draws here, None where no draw is told of."""
    if gathered.steps is None or gathered.in_run is None or gathered.draws_nothing:
        return None
    if (replica := replica_number(gathered)) is None:
        return None
    if not gathered.sees():
        gathered.steps.blind(f"draws of replicas that cannot be seen: {gathered.why_unseen()}")
        return None
    return replica


def _keyed(gathered: WitnessState) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def key(*args: Any, **options: Any) -> Any:
            with gathered.drawing_nothing():
                return original(*args, **options)

        return key

    return around


def _drawing(
    gathered: WitnessState, name: str, seeds: threading.local
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    operation = "".join(part.capitalize() for part in name.split("_"))

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def draw(*args: Any, **options: Any) -> Any:
            found = original(*args, **options)
            if (replica := _replica(gathered)) is None:
                return found
            given = signature.bind(*args, **options).arguments
            parameters = [value for key, value in given.items() if key not in _NO_PARAMETERS and _is_number(value)]
            return _told(gathered, replica, found, operation, parameters, seeded=_is_seeded(name, seeds))

        return draw

    return around


def _calling(gathered: WitnessState, *, at_once: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What the program's own Python gives, called from a graph or `at_once`: nobody knows what that draws."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def call(*args: Any, **options: Any) -> Any:
            import tensorflow as tf
            from tensorflow.python.eager import record

            found = original(*args, **options)
            if at_once and not tf.executing_eagerly():  # then it has called the other one, which tells of it
                return found
            outputs = [found] if isinstance(found, tf.Tensor) else found
            told = isinstance(outputs, (list, tuple)) and all(isinstance(each, tf.Tensor) for each in outputs)
            given = signature.bind(*args, **options).arguments
            # A gradient computes from what the call before it had.
            told &= not given.get("is_grad_func") and not _is_of_lockstep(given["func"])
            if not told or not outputs or (replica := _replica(gathered)) is None:
                return found
            is_eager = bool(given.get("use_eager_py_func"))
            with gathered.silent(), record.stop_recording():
                called = PythonCall(given["func"], is_eager=is_eager, inputs=_tensors(given["inp"]))
            passed = _told(gathered, replica, found, PYTHON, [], seeded=False, call=called)
            if not is_eager or passed is found:
                return passed
            with gathered.silent():
                through = with_gradients(called, outputs, [passed] if isinstance(found, tf.Tensor) else passed)
            return through[0] if isinstance(found, tf.Tensor) else through

        return call

    return around


def _is_of_lockstep(function: Any) -> bool:
    """Whether a fault, or who follows the run, has put this call there."""
    code = getattr(function, "__code__", None)  # by its file: a program may have modules of the same names
    return code is not None and code.co_filename.startswith(_OURS)


def _tensors(inputs: Any) -> list[Any] | None:
    """Arguments of Python that a graph calls; None if one is more than a tensor."""
    import tensorflow as tf

    if any(isinstance(each, tf.__internal__.CompositeTensor) and not isinstance(each, tf.Variable) for each in inputs):
        return None
    return [tf.convert_to_tensor(each) for each in inputs]


def _shuffling(
    gathered: WitnessState, name: str, seeds: threading.local
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Of a shuffle the permutation is the draw: TensorFlow draws the same one for numbers as for rows."""
    operation = "".join(part.capitalize() for part in name.split("_"))

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def shuffle(value: Any, *args: Any, **options: Any) -> Any:
            import tensorflow as tf

            if (replica := _replica(gathered)) is None:
                return original(value, *args, **options)
            value = tf.convert_to_tensor(value)
            order = original(tf.range(tf.shape(value)[0]), *args, **options)
            order.set_shape(value.shape[:1])
            order = _told(gathered, replica, order, operation, [], seeded=_is_seeded(name, seeds))
            found = tf.gather(value, order)
            found.set_shape(value.shape) if not tf.executing_eagerly() else None
            return found

        return shuffle

    return around


def _sorting(gathered: WitnessState) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The order by which numbers are sorted that were drawn one for each row is drawn, as of a shuffle."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def sort(values: Any, axis: Any, direction: Any, return_argsort: bool) -> Any:
            found = original(values, axis, direction, return_argsort)
            is_drawn = gathered.drawn.get(id(values)) is values and found.shape.rank == 1 and return_argsort
            if not is_drawn or (replica := _replica(gathered)) is None:
                return found
            return _told(gathered, replica, found, SORTED, [], seeded=False)

        return sort

    return around


def _is_number(value: Any) -> bool:
    import numpy as np
    import tensorflow as tf

    if isinstance(value, (bool, str, bytes)) or value is None:
        return False
    if isinstance(value, (int, float, np.ndarray)):
        return True
    return isinstance(value, tf.Tensor) and (value.dtype.is_floating or value.dtype.is_integer)


def _seeding(gathered: WitnessState, seeds: threading.local) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Know whether the operation that a thread makes next was given a seed of its own.

    TensorFlow counts those that were given none. So what is drawn outside of replicas depends on how many of them draw
    inside: who follows a run counts as many as the run.
    """

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_seed(op_seed: Any) -> Any:
            seeds.given = op_seed is not None
            found = original(op_seed)
            inside = gathered.in_run is not None and not gathered.draws_nothing
            if op_seed is None and inside and gathered.steps is not None and replica_number(gathered) is not None:
                for _ in range(gathered.steps.seeds_beside):
                    original(None)
            return found

        return get_seed

    return around


def _is_seeded(name: str, seeds: threading.local) -> bool:
    """Whether the program says by a seed what is drawn. One that TensorFlow counts for itself says nothing."""
    return name.startswith("stateless") or bool(getattr(seeds, "given", False))


def _told(
    gathered: WitnessState,
    replica: int,
    found: Any,
    operation: str,
    parameters: list[Any],
    *,
    seeded: bool,
    call: PythonCall | None = None,
) -> Any:
    import tensorflow as tf
    from tensorflow.python.eager import record

    in_run, steps = gathered.in_run, gathered.steps
    assert in_run is not None
    assert steps is not None
    place = StepPlace(DRAWN, in_run.number, in_run.draw(replica))
    outputs = [found] if isinstance(found, tf.Tensor) else list(found)
    with gathered.silent(), record.stop_recording():
        told = [tf.convert_to_tensor(each) for each in parameters]
        given = steps.drawn(ReplicaDraw(place, replica, outputs, operation, told, seeded, call))
    gathered.drawn.update((id(each), each) for each in given)
    return given[0] if isinstance(found, tf.Tensor) else type(found)(*given) if hasattr(found, "_fields") else given
