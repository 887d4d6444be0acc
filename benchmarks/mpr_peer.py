"""The peer of `bench_cluster`: TensorFlow's MultiProcessRunner, timing a fresh cluster for each line of input.

`MultiProcessRunner` starts its processes by running `sys.argv[0]` again, and refuses a name that ends in `.py`.
`benchmarks.mpr` therefore writes this file, behind a `#!` line with the current interpreter, to an executable file
without that ending.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import multi_process_runner, multi_worker_test_base


def first_all_reduce() -> list[float]:
    """Join the cluster as one worker and return the sum over all workers of ones."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    @tf.function
    def step() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.ones([4])))

    values: list[float] = strategy.experimental_local_results(step())[0].numpy().tolist()
    return values


class Peer(tf.test.TestCase):  # type: ignore[misc]  # TensorFlow has no type hints, so its classes are Any
    """One test, because MultiProcessRunner works only inside TensorFlow's own test main."""

    def test_serve(self) -> None:
        """For each number of workers on standard input, print the seconds of one fresh cluster as JSON."""
        for line in sys.stdin:
            workers = int(line)
            start = time.monotonic()
            spec = multi_worker_test_base.create_cluster_spec(has_chief=False, num_workers=workers)
            result = multi_process_runner.run(first_all_reduce, spec)
            seconds = time.monotonic() - start
            assert result.return_value == [[float(workers)] * 4] * workers, result.return_value
            print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    multi_process_runner.test_main()
