"""Input pipelines of tf.data: on one device, and without two defects that iterators have when a program gives them up.

**The thread that tunes them** may make their end wait. TensorFlow's `Model::OptimizeLoop` (tensorflow/core/framework/
model.cc) sleeps for a period that doubles up to a minute, and is woken when its iterator is given up before it can see
that it was (`CancellationManager::StartCancel` calls back first). Where it is quicker it sleeps on, and the program
with it, for up to as long as it has iterated: one end in eight, on two cores.

**One for several devices that is given up while it fetches** may kill the process with SIGSEGV. `MultiDeviceIterator`
(tensorflow/core/kernels/data/multi_device_iterator_ops.cc) declares its dataset after the buffer whose thread fetches,
so that C++ destroys the dataset first. Where `apply_default_optimizations` is off, nobody else has it. Keras 3
turns it off for arrays, and gives an iterator up after one element before each `evaluate`.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched

_left: list[Any] = []


def leave_iterators() -> None:
    """Have no iterator that is there come to its end before this process does, which waits for none."""
    from tensorflow.python.data.ops import iterator_ops, multi_device_iterator_ops

    kinds = (iterator_ops.OwnedIterator, multi_device_iterator_ops.OwnedMultiDeviceIterator)
    _left.extend(each for each in gc.get_objects() if issubclass(type(each), kinds))


@contextlib.contextmanager
def datasets_outlive() -> Iterator[None]:
    """Within this context an iterator for several devices has its dataset for as long as it fetches."""
    from tensorflow.python.data.ops import multi_device_iterator_ops
    from tensorflow.python.ops import gen_dataset_ops

    building = threading.local()

    def remember(original: Callable[..., Any]) -> Callable[..., Any]:
        def initialize(dataset: Any, *args: Any, **options: Any) -> Any:
            building.dataset = dataset
            return original(dataset, *args, **options)

        return initialize

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(iterator: Any, *args: Any, **options: Any) -> None:
            original(iterator, *args, **options)
            # The last of its attributes, which Python drops in the order in which they were set.
            iterator._lockstep_dataset = vars(building).pop("dataset", None)  # noqa: SLF001 - the name is ours

        return create

    with (
        patched(gen_dataset_ops, "multi_device_iterator_init", remember),
        patched(multi_device_iterator_ops.OwnedMultiDeviceIterator, "__init__", around),
    ):
        yield


@contextlib.contextmanager
def without_autotune() -> Iterator[None]:
    """Within this context no iterator tunes its dataset, whose elements and their order stay what they are."""
    import tensorflow as tf
    from tensorflow.python.data.ops import iterator_ops

    options = tf.data.Options()
    options.autotune.enabled = False

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(iterator: Any, dataset: Any) -> Any:
            return original(iterator, dataset.with_options(options))

        return create

    with patched(iterator_ops.OwnedIterator, "_create_iterator", around):
        yield


@contextlib.contextmanager
def without_shard_hints() -> Iterator[None]:
    """Within this context a dataset that is sharded by `SHARD_HINT` is all of it, which TensorFlow refuses to iterate.

    The hint stands for the number of workers (`tf.data.experimental.AutoShardPolicy.HINT`): one device has no others.
    """
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def shard(dataset: Any, num_shards: Any, *args: Any, **options: Any) -> Any:
            hint = isinstance(num_shards, int) and num_shards == tf.data.experimental.SHARD_HINT
            return dataset if hint else original(dataset, num_shards, *args, **options)

        return shard

    with patched(tf.data.Dataset, "shard", around):
        yield
