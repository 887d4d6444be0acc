"""What each replica's function is called with: a fingerprint of each example.

An example is a row: the elements at one place along the first axis of all tensors that are as long along it as the
first one. So a data set needs no ids, and whatever splits it, a distributed data set, a worker's own pipeline or slices
made by hand, is seen at the same place: `Strategy.run`.

What a `tf.function` makes itself and gives to its replicas, such as noise, or was built with, is no example where they
are called with some as well: each worker has it whole, as a single replica has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from harness.recording.patches import patched
from harness.recording.witness._graph_values import is_processor
from harness.recording.witness._origins import has_rows
from harness.recording.witness._rows import examples_of_several
from harness.recording.witness._step_events import Event
from harness.recording.witness.protocol import WitnessState


@contextlib.contextmanager
def active(gathered: WitnessState) -> Iterator[None]:
    """See the examples of every `Strategy.run` that trains in this context."""
    from tensorflow.python.distribute import distribute_lib
    from tensorflow.python.eager.polymorphic_function import concrete_function, polymorphic_function

    traced = (polymorphic_function.Function, concrete_function.ConcreteFunction)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(strategy: Any, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            before = gathered.tapes
            result = original(strategy, fn, args, kwargs, options)
            # A function that was traced before runs no Python of its own, so that it may train as well; and what is
            # computed here may be assigned after the call.
            if gathered.tapes > before or gathered.is_by_hand or isinstance(fn, traced):
                with gathered.looking("examples"):
                    _see(gathered, strategy, (args, kwargs or {}))
            return result

        return run

    with patched(distribute_lib.StrategyBase, "run", around):
        yield


def _see(gathered: WitnessState, strategy: Any, given: Any) -> None:
    import tensorflow as tf
    from tensorflow.python.eager import record

    if not gathered.knows(strategy) or "examples" in gathered.reported or not gathered.sees():
        return
    found = enumerate(map(strategy.experimental_local_results, tf.nest.flatten(given)))
    leaves = [(position, parts) for position, parts in found if parts and all(map(has_rows, parts))]
    anew = [(position, parts) for position, parts in leaves if not all(map(_is_built_in, parts))]
    kind, leaves = ("examples", anew) if anew else ("constants", leaves)
    count = max((len(parts) for _, parts in leaves), default=0)
    leaves = [(position, parts) for position, parts in leaves if len(parts) == count]
    if not leaves:
        if gathered.tapes:  # before it trains, a program may set variables from nothing
            gathered.note("examples: a replica's function is called with no tensors that have rows")
        return
    site = gathered.site()
    positions = [position for position, _ in leaves]
    with record.stop_recording():
        fingerprints, counts = [], []
        for replica, device in enumerate(_devices(strategy, count)):
            with tf.device(device):
                own = [tf.fingerprint(parts[replica]) for _, parts in leaves]
                fingerprints.append(tf.concat(own, 0))
                counts.append([_rows_of(each) for each in own])
        head = tf.bitcast(tf.reshape(tf.stack(counts), [-1]), tf.uint8)

    def made_of(several: Sequence[Any]) -> list[Event]:
        found = examples_of_several(several, (count, len(leaves)))
        return [
            Event(kind, 0, site, tuple(positions[column] for column in columns), tuple(examples))
            for columns, examples in found
        ]

    gathered.deliver_always([head, *fingerprints], made_of)


def _devices(strategy: Any, count: int) -> list[str]:
    """Where each replica's examples are; nothing where TensorFlow has to find a processor near by that can hash."""
    devices = strategy.extended.worker_devices if count > 1 else ()
    if len(devices) != count or not all(is_processor(device) for device in devices):
        return [""] * count
    return list(devices)


def _rows_of(fingerprints: Any) -> Any:
    """How many, a constant where that is known before."""
    import tensorflow as tf

    known = fingerprints.shape[0]
    return tf.shape(fingerprints, tf.int64)[0] if known is None else tf.constant(known, tf.int64)


def _is_built_in(value: Any) -> bool:
    """Whether a graph is being built that has a value by itself, from nothing that it is called with or iterates over.

    What it reads from variables and draws at random is its own.
    """
    import tensorflow as tf

    if tf.executing_eagerly():
        return False
    if not tf.is_symbolic_tensor(value):
        return True
    left, known = [value.op], {value.op.name}
    while left:
        operation = left.pop()
        if "GetNext" in operation.type or "Optional" in operation.type:
            return False
        if operation.type == "Placeholder" and operation.outputs[0].dtype not in (tf.resource, tf.variant):
            return False
        new = [each.op for each in operation.inputs if each.op.name not in known]
        known.update(each.name for each in new)
        left.extend(new)
    return True
