"""A script that is run as workers: one all-reduce, and then each prints the memory that is its own, in MiB."""

from pathlib import Path

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()


@tf.function
def step() -> tf.Tensor:
    """The sum of one over all workers."""
    return strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)


assert float(step()) == strategy.num_replicas_in_sync
# Of a page that n processes share, each has an n-th.
sizes = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
print(f"memory {int(sizes['Pss'].split()[0]) / 1024:.1f}", flush=True)
