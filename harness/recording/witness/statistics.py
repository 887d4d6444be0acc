"""Where Keras normalises by the statistics of a batch, of which each replica of a run has one of its own.

One replica that follows a run has the rows of all in one batch. It normalises those of each by themselves, so that what
it computes is what the replicas should, down to the loss; moving statistics become the mean of theirs, as strategies
make it when they are read. A layer that synchronizes its statistics is left as it is.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from harness.recording.patches import patched
from harness.recording.watch.places import BY_BATCHES
from harness.recording.witness._replica import replica_number
from harness.recording.witness.protocol import WitnessState

_MODULES = {
    "keras": "keras.src.layers.normalization.batch_normalization",
    "tf_keras": "tf_keras.src.layers.normalization.batch_normalization",
}
_Place = tuple[str, int]
"""How a variable is changed, and which one."""

_KINDS = ("BatchNormalization", "BatchNormalizationBase")
_ASSIGNING = ("_assign_moving_average", "_assign_new_value")
"""How layers of tf_keras change a variable; those of Keras 3 call its `assign`."""


def layers() -> Iterator[type]:
    """The classes of the Kerases that are loaded which normalise by batches."""
    for package, name in _MODULES.items():
        module = importlib.import_module(name) if package in sys.modules else None
        yield from (kind for each in _KINDS if "call" in vars(kind := getattr(module, each, object)))


def by_batch(layer: Any, training: Any) -> bool:
    """Whether a call normalises by the batch of its replica only; `training` as of the call."""
    return training is not False and not getattr(layer, "synchronized", False)


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """Have `gathered.steps` say which batches one in this context consists of."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def call(layer: Any, inputs: Any, *args: Any, **options: Any) -> Any:
            given = signature.bind(layer, inputs, *args, **options).arguments
            sizes = _sizes(gathered, layer, inputs, given.get("training"))
            if sizes is None:
                return original(layer, inputs, *args, **options)
            return apart(original, layer, inputs, given.get("mask"), sizes)

        return call

    with contextlib.ExitStack() as stack:
        for kind in layers():
            stack.enter_context(patched(kind, "call", around))
        yield


def _sizes(gathered: WitnessState, layer: Any, inputs: Any, training: Any) -> Any:
    """How many rows of its input a layer has to normalise at a time, by replicas, int32 [R]; None where all of them."""
    import tensorflow as tf

    if not by_batch(layer, training) or not (isinstance(training, (bool, int)) and training) or not layer.trainable:
        return None  # a tensor may say in each step whether it trains
    if gathered.steps is None or gathered.in_run is None or not isinstance(inputs, tf.Tensor):
        return None
    if replica_number(gathered) is None or not inputs.shape.rank:
        return None
    return gathered.steps.batches(inputs, traced=gathered.why_unseen() is None)


def apart(original: Callable[..., Any], layer: Any, inputs: Any, mask: Any, sizes: Any) -> Any:
    """What a layer gives for a batch that is several, one after another.

    Args:
        original: the `call` of its class.
        layer: normalises by batches.
        inputs: [rows, ...].
        mask: as of `call`; None for none.
        sizes: of the batches, int32 [R].
    """
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert
    def by_batches() -> Any:
        count = int(sizes.shape[0])
        batches = tf.split(inputs, sizes, num=count)
        masks = [None] * count if mask is None else tf.split(tf.convert_to_tensor(mask), sizes, num=count)
        changes: dict[_Place, list[Any]] = {}
        with _collected(layer, changes) as assign:
            found = [
                original(layer, batch, training=True, mask=part) for batch, part in zip(batches, masks, strict=True)
            ]
        for place, values in changes.items():
            assign(place, _mean(values, sizes))
        joined = tf.concat(found, 0)
        joined.set_shape(inputs.shape) if not tf.executing_eagerly() else None
        return joined

    with tf.name_scope(BY_BATCHES):
        return by_batches()


def _mean(values: Sequence[Any], sizes: Any) -> Any:
    """The mean over batches that are not empty, of which there are no statistics."""
    import tensorflow as tf

    counts = tf.cast(sizes > 0, values[0].dtype)
    kept = [
        tf.where(each > 0, value, tf.zeros_like(value)) for value, each in zip(values, tf.unstack(counts), strict=True)
    ]
    return tf.add_n(kept) / tf.reduce_sum(counts)


@contextlib.contextmanager
def _collected(
    layer: Any, changes: dict[tuple[str, int], list[Any]]
) -> Iterator[Callable[[tuple[str, int], Any], Any]]:
    """Within this context what a layer gives its variables is collected, and not given.

    Args:
        layer: of either Keras.
        changes: gets it, by how and to which variable.

    Yields:
        A function that gives a variable something in the way in which the layer would have done it.
    """
    import tensorflow as tf

    given: dict[_Place, Callable[[Any], Any]] = {}

    def collect(place: _Place, value: Any, give: Callable[[Any], Any]) -> None:
        given.setdefault(place, give)
        changes.setdefault(place, []).append(tf.convert_to_tensor(value))

    def around(name: str) -> Callable[..., None]:
        original = getattr(layer, name)

        def assign(variable: Any, value: Any, *rest: Any) -> None:
            collect((name, id(variable)), value, lambda mean: original(variable, mean, *rest))

        return assign

    def of_variable(variable: Any) -> Callable[..., None]:
        original = variable.assign
        return lambda value: collect(("assign", id(variable)), value, original)

    names = [name for name in _ASSIGNING if hasattr(layer, name)]
    with contextlib.ExitStack() as stack:
        if names:
            stack.enter_context(mock.patch.dict(vars(layer), {name: around(name) for name in names}))
        else:
            for variable in layer.non_trainable_variables:
                stack.enter_context(mock.patch.object(variable, "assign", of_variable(variable)))
        yield lambda place, value: given[place](value)
