"""Datasets with `shard(SHARD_HINT, ...)`, which TensorFlow refuses to iterate where nothing distributes them.

The hint stands for the number of workers (`tf.data.experimental.AutoShardPolicy.HINT`), and one device has no others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.patches import patched


@contextlib.contextmanager
def without_shard_hints() -> Iterator[None]:
    """Within this context a dataset that is sharded by the hint is all of it."""
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def shard(dataset: Any, num_shards: Any, *args: Any, **options: Any) -> Any:
            hint = isinstance(num_shards, int) and num_shards == tf.data.experimental.SHARD_HINT
            return dataset if hint else original(dataset, num_shards, *args, **options)

        return shard

    with patched(tf.data.Dataset, "shard", around):
        yield
