"""Several replicas each of which stands for a whole: what they reduce is a mean, and they are one to whoever counts.

Each is given its own examples as often as there are replicas, so that it computes what one device would compute from
nothing but these. Then a sum over replicas, by which a program puts parts together, has to be a mean of wholes. Only
TensorFlow's own code knows how many replicas there are.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from harness.recording.patches import patched

_COUNT = "num_replicas_in_sync"
LOSSES = str(Path("tensorflow", "python", "ops", "nn_impl_distribute.py"))
"""Where TensorFlow divides losses by the number of replicas for the program, as of `tf.nn.compute_average_loss`."""


@contextlib.contextmanager
def averaging() -> Iterator[None]:
    """Within this context every sum over replicas is a mean, under strategies that have theirs in one process."""
    from tensorflow.python.distribute import (
        collective_all_reduce_strategy,
        mirrored_strategy,
        parameter_server_strategy,
        reduce_util,
    )

    def mean(operation: Any) -> Any:
        return reduce_util.ReduceOp.MEAN if operation == reduce_util.ReduceOp.SUM else operation

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def reduce(extended: Any, reduce_op: Any, *args: Any, **options: Any) -> Any:
            return original(extended, mean(reduce_op), *args, **options)

        return reduce

    kinds = (
        mirrored_strategy.MirroredExtended,
        collective_all_reduce_strategy.CollectiveAllReduceExtended,
        parameter_server_strategy.ParameterServerStrategyExtended,  # that of CentralStorageStrategy
    )
    with contextlib.ExitStack() as stack:
        for extended, name in itertools.product(kinds, ("_reduce_to", "_batch_reduce_to", "_replica_ctx_all_reduce")):
            if name in vars(extended):
                stack.enter_context(patched(extended, name, around))
        stack.enter_context(_one_element())
        yield


@contextlib.contextmanager
def _one_element() -> Iterator[None]:
    """Within this context all replicas have one element of what a function makes for a worker, and not one each."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def distribute(strategy: Any, dataset_fn: Any, options: Any = None) -> Any:
            times = strategy._extended._num_replicas_in_sync  # noqa: SLF001 - what it reads

            def whole(context: Any) -> Any:
                dataset = dataset_fn(context)

                def same(*parts: Any) -> Any:
                    element = tf.nest.pack_sequence_as(dataset.element_spec, tf.nest.flatten(parts))
                    return tf.data.Dataset.from_tensors(element).repeat(times)

                return dataset.flat_map(same)

            return original(strategy, whole, options)

        return distribute

    with patched(distribute_lib.StrategyBase, "distribute_datasets_from_function", around):
        yield


@contextlib.contextmanager
def counted_as_one() -> Iterator[None]:
    """Within this context there is one replica, the first, to whoever asks but TensorFlow itself, save for losses."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib

    folder = str(Path(tf.__file__).parent) + os.sep

    def by_itself() -> bool:
        asks = sys._getframe(2).f_code.co_filename  # noqa: SLF001 - who asks is all that is to be known
        return asks.startswith(folder) and not asks.endswith(LOSSES)

    def count(strategy: Any) -> int:
        return int(strategy._extended._num_replicas_in_sync) if by_itself() else 1  # noqa: SLF001 - what it reads

    def in_replica(context: Any) -> int:
        return int(context._strategy._extended._num_replicas_in_sync) if by_itself() else 1  # noqa: SLF001 - as above

    contexts = distribute_lib.ReplicaContextBase
    true_number = contexts.replica_id_in_sync_group

    def number(context: Any) -> Any:
        return true_number.fget(context) if by_itself() else tf.constant(0)

    with (
        mock.patch.object(distribute_lib.StrategyBase, _COUNT, property(count)),
        mock.patch.object(contexts, _COUNT, property(in_replica)),
        mock.patch.object(contexts, "replica_id_in_sync_group", property(number)),
    ):
        yield
