"""What a replica asks a `tf.GradientTape` for: gradients of variables, and the loss that they are of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched
from harness.recording.tensors import is_keras_variable
from harness.recording.witness._replica import replica_number
from harness.recording.witness._step_events import Event
from harness.recording.witness._values import LOSS, dense, within_budget
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See all gradients of variables that are taken with a tape in this context, as the program gets them."""
    import tensorflow as tf
    from tensorflow.python.data.ops import structured_function
    from tensorflow.python.ops.parallel_for import control_flow_ops

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **options: Any) -> Any:
            if gathered.threads.is_aside:
                gathered.threads.gradients_aside = True
                gathered.sees()  # which notes that nothing is
                return original(tape, target, sources, *args, **options)
            trained = _trained(gathered, sources)
            if trained:
                gathered.trains()
            found = original(tape, target, sources, *args, **options)
            if trained:
                with gathered.looking("gradients"):
                    _see(gathered, target, sources, found)
            return found

        return gradient

    def apart(why: str) -> Callable[..., Any]:
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **options: Any) -> Any:
                with gathered.cannot_see(why):
                    return original(*args, **options)

            return call

        return around

    wrapper = structured_function.StructuredFunctionWrapper
    with (
        patched(tf.GradientTape, "gradient", around),
        patched(wrapper, "__init__", apart("values inside of a tf.data pipeline")),
        patched(control_flow_ops, "pfor", apart("values inside of tf.vectorized_map, or of a tape's jacobian")),
    ):
        yield


def _trained(gathered: WitnessState, sources: Any) -> bool:
    """Whether any of the sources is a variable; all those are trained from now on."""
    import tensorflow as tf

    found = [
        source for source in tf.nest.flatten(sources) if isinstance(source, tf.Variable) or is_keras_variable(source)
    ]
    with gathered.looking("variables"):
        for source in found:
            gathered.registry.train(source)
    return bool(found)


def _see(gathered: WitnessState, target: Any, sources: Any, gradients: Any) -> None:
    import tensorflow as tf

    replica = replica_number(gathered)
    if replica is None:
        return
    pairs = [
        (gathered.registry.entry(source), _shaped(dense(gradient), source))
        for source, gradient in zip(tf.nest.flatten(sources), _flat(sources, gradients), strict=True)
        if gradient is not None
    ]
    kept = [(entry, gradient) for entry, gradient in pairs if entry is not None and gradient is not None]
    parts = within_budget([gradient for _, gradient in kept])
    if parts is None:
        gathered.note("gradients of each replica, of which nothing tells how large they are")
    named = [(LOSS, _total(target)), *zip([entry for entry, _ in kept], parts or (), strict=False)]
    site = gathered.site()

    names = tuple(name for name, _ in named)

    def take(arrays: list[Any]) -> None:
        gathered.take(Event("tape", replica, site, names, tuple(arrays)))

    gathered.deliver([tensor for _, tensor in named], take)


def _shaped(gradient: Any, source: Any) -> Any:
    """With the shape of its source where the graph does not know it, as behind a `Tensordot` of sequences."""
    import tensorflow as tf

    if gradient is None or gradient.shape.is_fully_defined():
        return gradient
    shape = tf.TensorShape(source.shape)  # of a variable of Keras 3 it may be a tuple
    return tf.ensure_shape(gradient, shape) if shape.is_fully_defined() else gradient


def _flat(sources: Any, gradients: Any) -> list[Any]:
    """The gradients in the order of the sources; IndexedSlices are one gradient each."""
    from tensorflow.python.util import nest

    return list(nest.flatten_up_to(sources, gradients))


def _total(target: Any) -> Any:
    """What is differentiated: a tape adds up all elements of all targets."""
    import tensorflow as tf

    totals = [tf.reduce_sum(each) if each.shape.rank != 0 else each for each in map(_tensor, tf.nest.flatten(target))]
    return totals[0] if len(totals) == 1 else tf.add_n([tf.cast(each, totals[0].dtype) for each in totals])


def _tensor(target: Any) -> Any:
    import tensorflow as tf

    return tf.convert_to_tensor(target)
