"""Input pipelines as data: where examples come from, what is done to them, and how they are distributed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

Policy = Literal["AUTO", "FILE", "DATA", "HINT", "OFF"]
Source = Literal["memory", "generator", "tfrecord", "text", "csv", "make_csv"]
Length = Literal["scalar", "dense", "ragged", "sparse"]


class Pipeline(msgspec.Struct, frozen=True):
    """One input pipeline. Example ids count from 0 through all files.

    Attributes:
        examples: how many there are in each file; in memory there is no file, and only their sum counts.
        batch: the global batch size.
        source: in memory (`memory`, `generator`) or real files: TFRecord, text, CSV through `CsvDataset` or through
            `make_csv_dataset`.
        steps: names of `TRANSFORMATIONS`, in order; without one that batches, `batch` comes last.
        policy: the `AutoShardPolicy`.
        function: empty for `experimental_distribute_dataset`, else one of `FUNCTIONS`.
        seeds: whether every process has the same global seed, as under `verify`; without, each has its own, as where
            a script sets none.
        epochs: how often the distributed dataset is iterated over.
    """

    examples: tuple[int, ...]
    batch: int
    source: Source = "memory"
    steps: tuple[str, ...] = ()
    policy: Policy = "AUTO"
    function: str = ""
    seeds: bool = True
    epochs: int = 1

    @property
    def total(self) -> int:
        """Examples of one epoch."""
        return sum(self.examples)

    @property
    def files(self) -> list[list[int]]:
        """The ids in each file."""
        starts = [sum(self.examples[:index]) for index in range(len(self.examples))]
        return [list(range(start, start + count)) for start, count in zip(starts, self.examples, strict=True)]

    @property
    def transformations(self) -> tuple[str, ...]:
        """`steps`, with the batching that every pipeline needs."""
        return self.steps if any("batch" in step for step in self.steps) else (*self.steps, "batch")


def build(pipeline: Pipeline, directory: Path, context: Any = None) -> Any:
    """The dataset: (ids, values), where an example has its id as often as its length says; called in a task.

    `context` is the `tf.distribute.InputContext` where the pipeline shards by itself.
    """
    import tensorflow as tf

    dataset = _SOURCES[pipeline.source](pipeline, directory)
    for step in pipeline.transformations:
        dataset = _apply(step, dataset, pipeline, context)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = getattr(tf.data.experimental.AutoShardPolicy, pipeline.policy)
    return dataset.with_options(options)


def distribute(strategy: Any, pipeline: Pipeline, directory: Path) -> Any:
    """What the training loop iterates over."""
    if not pipeline.function:
        return strategy.experimental_distribute_dataset(build(pipeline, directory))
    steps = FUNCTIONS[pipeline.function]
    inner = msgspec.structs.replace(pipeline, steps=(*pipeline.steps, *steps))
    return strategy.distribute_datasets_from_function(lambda context: build(inner, directory, context))


def ids_of(element: Any) -> list[int]:
    """The ids of one replica's part of a batch.

    Raises:
        AssertionError: values are not those of their ids.
    """
    import numpy as np
    import tensorflow as tf

    ids, values = element
    if isinstance(values, tf.SparseTensor):
        values = tf.sparse.to_dense(values, default_value=-1)
    if isinstance(values, tf.RaggedTensor):
        values = values.to_tensor(-1)
    found = [int(key) for key in ids.numpy()]
    for key, row in zip(found, values.numpy(), strict=True):
        assert np.array_equal(row[row >= 0], np.full(key % 3 + 1, key)[: len(row)]), (key, row)
    return found


def _memory(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.range(pipeline.total)


def _generator(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    return tf.data.Dataset.from_generator(
        lambda: iter(range(pipeline.total)), output_signature=tf.TensorSpec([], tf.int64)
    )


def _write(pipeline: Pipeline, directory: Path, ending: str, write: Callable[[Path, Sequence[int]], None]) -> list[str]:
    """Files of this pipeline, written once; the name holds what is in them, so that tasks can share them."""
    paths = []
    for number, ids in enumerate(pipeline.files):
        path = directory / f"{number}-{ids[0] if ids else 0}-{len(ids)}.{ending}"
        if not path.exists():
            # Not the process id: tasks with hosts of their own may all have the same.
            begun = path.with_suffix(f".{uuid.uuid4().hex}")
            write(begun, ids)
            begun.rename(path)
        paths.append(str(path))
    return paths


def _tfrecord(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    def write(path: Path, ids: Sequence[int]) -> None:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for key in ids:
                writer.write(str(key).encode())

    paths = _write(pipeline, directory, "tfrecord", write)
    return _read(pipeline, tf.data.TFRecordDataset, paths).map(lambda text: tf.strings.to_number(text, tf.int64))


def _lines(path: Path, ids: Sequence[int]) -> None:
    path.write_text("".join(f"{key}\n" for key in ids))


def _text(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    paths = _write(pipeline, directory, "txt", _lines)
    return _read(pipeline, tf.data.TextLineDataset, paths).map(lambda text: tf.strings.to_number(text, tf.int64))


def _csv(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    paths = _write(pipeline, directory, "csv", _lines)
    return _read(pipeline, lambda path: tf.data.experimental.CsvDataset(path, [tf.int64]), paths).map(lambda key: key)


def _make_csv(pipeline: Pipeline, directory: Path) -> Any:
    import tensorflow as tf

    def write(path: Path, ids: Sequence[int]) -> None:
        path.write_text("".join(f"{key}\n" for key in ("id", *ids)))

    paths = _write(pipeline, directory, "headed", write)
    batches = tf.data.experimental.make_csv_dataset(
        paths, batch_size=1, num_epochs=1, shuffle="make_csv_shuffled" in pipeline.steps, column_defaults=[tf.int64]
    )
    return batches.unbatch().map(lambda columns: columns["id"])


def _read(pipeline: Pipeline, reader: Callable[[Any], Any], paths: list[str]) -> Any:
    """One reader for all files, or one for each, interleaved."""
    import tensorflow as tf

    for step in pipeline.steps:
        if step.startswith("interleave"):
            return tf.data.Dataset.from_tensor_slices(paths).interleave(
                reader,
                cycle_length=2,
                num_parallel_calls=None if step == "interleave" else 2,
                deterministic=None if step == "interleave" else step == "interleave_parallel",
            )
    return reader(paths)


_SOURCES: dict[str, Callable[[Pipeline, Path], Any]] = {
    "memory": _memory,
    "generator": _generator,
    "tfrecord": _tfrecord,
    "text": _text,
    "csv": _csv,
    "make_csv": _make_csv,
}


def _apply(step: str, dataset: Any, pipeline: Pipeline, context: Any) -> Any:
    import tensorflow as tf

    if "batch" in step:
        size = pipeline.batch
        if step.endswith("per_replica"):
            size = context.get_per_replica_batch_size(size)
        return _batch(step, dataset, size)
    if step.startswith(("interleave", "make_csv")):
        return dataset
    if step == "shard":
        return dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    if step == "shard_first":
        return dataset.shard(context.num_input_pipelines, 0)
    if step == "shard_hint":
        return dataset.shard(tf.data.experimental.SHARD_HINT, tf.data.experimental.SHARD_HINT)
    return TRANSFORMATIONS[step](dataset)


def _batch(step: str, dataset: Any, size: int) -> Any:
    """Each example is (id, values); how long the values are is where the kinds of batches differ."""
    import tensorflow as tf

    if step.startswith("dense"):
        return dataset.batch(size)  # what is already (ids, values)
    if step.startswith("padded_batch"):
        return dataset.map(lambda key: (key, tf.fill([key % 3 + 1], key))).padded_batch(
            size, padded_shapes=([], [3]), padding_values=(None, tf.constant(-1, tf.int64))
        )
    if step.startswith("ragged_batch"):
        return dataset.map(lambda key: (key, tf.fill([key % 3 + 1], key))).ragged_batch(size)
    if step.startswith("sparse_batch"):
        return dataset.map(
            lambda key: (
                key,
                tf.SparseTensor(
                    tf.range(key % 3 + 1)[:, None], tf.fill([key % 3 + 1], key), tf.constant([3], tf.int64)
                ),
            )
        ).batch(size)
    whole = step.startswith("batch_drop_remainder")
    return dataset.map(lambda key: (key, tf.fill([1], key))).batch(size, drop_remainder=whole)


def _plain(call: str, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    return lambda dataset: getattr(dataset, call)(*args, **kwargs)


def _unknown(dataset: Any) -> Any:
    return dataset.filter(lambda *_: True)


def _parallel_map(deterministic: bool) -> Callable[[Any], Any]:
    return lambda dataset: dataset.map(lambda key: key, num_parallel_calls=2, deterministic=deterministic)


# By name, so that a pipeline is data and can be sent, printed and shrunk. 10 is a buffer that rarely holds everything.
TRANSFORMATIONS: dict[str, Callable[[Any], Any]] = {
    "shuffle": _plain("shuffle", 10),
    "shuffle_seeded": _plain("shuffle", 10, seed=7),
    "shuffle_once": _plain("shuffle", 10, seed=7, reshuffle_each_iteration=False),
    "cache": _plain("cache"),
    "repeat": _plain("repeat", 2),
    "map": _parallel_map(True),
    "map_any_order": _parallel_map(False),
    "prefetch": _plain("prefetch", 2),
    "unknown": _unknown,
    "skip": _plain("skip", 1),
    "take": _plain("take", 7),
}
# What a function given to distribute_datasets_from_function does after the steps of the pipeline.
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "shard_then_batch": ("shard", "batch_per_replica"),
    "batch_then_shard": ("batch_per_replica", "shard"),
    "no_shard": ("batch_per_replica",),
    "global_batch": ("shard", "batch"),
    "first_shard_everywhere": ("shard_first", "batch_per_replica"),
}


def number_of(task: str) -> int:
    """Of a worker among those of its job; its rank is that on its machine."""
    return int(task.partition(":")[2])
