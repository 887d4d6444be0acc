"""What replicas reduce: each floating element by 2 eps of itself.

A reference has one replica and nothing to add up, so that a reduction changes no bit: neither under the default
strategy nor, in a script, under the strategy that it builds. It is exactly there that a distributed run sums in another
order. All ways lead to one function of a strategy: `strategy.reduce`, `ReplicaContext.all_reduce`,
`extended.reduce_to` and `extended.batch_reduce_to`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, patched
from harness.recording.noise.signs import lasting

ROUNDINGS = 2.0
"""Each replica's part is rounded, and so is their sum. Less than a gradient's, which is reduced as well: two amounts of
the same size would cancel in half of the elements."""


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb what is reduced over replicas in this context."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as collective
    from tensorflow.python.distribute import distribute_lib, mirrored_strategy, parameter_server_strategy

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(extended: Any, *args: Any, **options: Any) -> Any:
            if source.is_silent:
                return original(extended, *args, **options)
            with source.silent():  # one may call another
                found = original(extended, *args, **options)
            return _perturbed(source, found)

        return reduce

    mirrored, stored = mirrored_strategy.MirroredExtended, parameter_server_strategy.ParameterServerStrategyExtended
    seams = {
        distribute_lib._DefaultDistributionExtended: ("_reduce_to",),  # noqa: SLF001 - see above
        mirrored: ("_reduce_to", "_batch_reduce_to", "_replica_ctx_all_reduce"),
        collective.CollectiveAllReduceExtended: ("_reduce_to", "_replica_ctx_all_reduce"),
        stored: ("_reduce_to", "_batch_reduce_to"),
    }
    with contextlib.ExitStack() as stack:
        for kind, names in seams.items():
            for name in names:
                stack.enter_context(patched(kind, name, around))
        yield


def _perturbed(source: NoiseSource, value: Any) -> Any:
    import tensorflow as tf

    def one(part: Any) -> Any:
        if isinstance(part, tf.Variable):
            part = part.read_value()
        if not isinstance(part, tf.Tensor) or not eps_of(part.dtype.name):
            return part
        still = tf.stop_gradient(part)
        noise = still * lasting(source, ROUNDINGS * eps_of(part.dtype.name), part)
        return part + tf.where(still == tf.round(still), tf.zeros([], part.dtype), noise)

    with source.silent():
        return tf.nest.map_structure(one, value, expand_composites=True)
