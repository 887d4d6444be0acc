"""Per-worker datasets of parameter-server training, and a program that says which worker was given which example."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

Form = Literal["dataset", "distributed_dataset", "datasets_from_function", "shuffled"]
GLOBAL_BATCH = 4


def make(form: Form, examples: int, steps: int) -> Callable[[Any, Any], None]:
    """A program in which the workers take `steps` batches in all, and which records what each worker was given.

    Forms: what `dataset_fn` returns is a plain dataset, or what `experimental_distribute_dataset` or
    `distribute_datasets_from_function` make of one; `shuffled` is a plain one, shuffled without a seed. All repeat.
    """
    return functools.partial(_train, form=form, examples=examples, steps=steps)


def _train(strategy: Any, record: Any, *, form: Form, examples: int, steps: int) -> None:
    import tensorflow as tf

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    first = {_pid(coordinator, strategy, index): f"worker:{index}" for index in range(_workers())}
    iterator = iter(coordinator.create_per_worker_dataset(_dataset_fn(strategy, form, examples)))

    @tf.function
    def step(batches: Any) -> Any:
        ids = strategy.run(lambda ids: ids, args=(next(batches),))
        return ids, tf.io.read_file("/proc/self/stat")

    results = [coordinator.schedule(step, args=(iterator,)) for _ in range(steps)]
    coordinator.join()
    for result in results:
        ids, stat = coordinator.fetch(result)
        record.step(examples={first[_pid_of(stat)]: ids})


def _workers() -> int:
    import json
    import os

    return len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])


def _pid_of(stat: Any) -> int:
    return int(bytes(stat).split()[0])


def _pid(coordinator: Any, strategy: Any, index: int) -> int:
    """The process id of a worker, read on it."""
    import tensorflow as tf

    with tf.device(f"/job:worker/replica:0/task:{index}/device:CPU:0"):
        return _pid_of(tf.io.read_file("/proc/self/stat").numpy())


def _dataset_fn(strategy: Any, form: Form, examples: int) -> Callable[[], Any]:
    import tensorflow as tf

    def dataset(context: Any = None) -> Any:
        found = tf.data.Dataset.range(examples)
        if form == "shuffled":
            found = found.shuffle(examples)
        if context is not None:
            found = found.shard(context.num_input_pipelines, context.input_pipeline_id)
        return found.repeat().batch(GLOBAL_BATCH)

    if form == "distributed_dataset":
        return lambda: strategy.experimental_distribute_dataset(dataset())
    if form == "datasets_from_function":
        return lambda: strategy.distribute_datasets_from_function(dataset)
    return dataset
