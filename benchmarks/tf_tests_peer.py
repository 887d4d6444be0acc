"""What `bench_tf_tests` runs on both sides: a test of TensorFlow's kind, in four tasks, three times over.

It notes the seconds of each run in the file that LOCKSTEP_BENCH_OUT names.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import multi_process_runner, multi_worker_test_base

_TASKS, _RUNS = 4, 3


def first_all_reduce() -> list[float]:
    """Join the cluster as one worker and return the sum over all workers of ones."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    values: list[float] = strategy.experimental_local_results(step())[0].numpy().tolist()
    return values


class FourTasksTest(tf.test.TestCase):  # type: ignore[misc]  # TensorFlow has no type hints, so its classes are Any
    """One test."""

    def test_all_reduce(self) -> None:
        """A fresh cluster for each run."""
        seconds = []
        for _ in range(_RUNS):
            start = time.monotonic()
            spec = multi_worker_test_base.create_cluster_spec(has_chief=False, num_workers=_TASKS)
            result = multi_process_runner.run(first_all_reduce, spec)
            seconds.append(time.monotonic() - start)
            assert result.return_value == [[float(_TASKS)] * 4] * _TASKS, result.return_value
        Path(os.environ["LOCKSTEP_BENCH_OUT"]).write_text(json.dumps(seconds))


if __name__ == "__main__":
    multi_process_runner.test_main()
