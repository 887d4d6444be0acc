"""An unmodified parameter-server program: every task runs it, and it knows of nothing but `TF_CONFIG`.

The chief schedules updates, prints how often each was applied, as JSON, and ends. Update i adds one to element i of a
vector on the parameter servers; then it computes for a while, so that a worker may die with its update done and not
reported.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import tensorflow as tf

_SECONDS = 0.1


def main(updates: int) -> None:
    """Serve, or schedule so many updates and wait for them."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        applied = tf.Variable(tf.zeros([updates], tf.int64))

    @tf.function
    def update(chosen: Any) -> Any:
        tf.print("update", chosen)
        applied.assign_add(tf.one_hot(chosen, updates, dtype=tf.int64))
        until = tf.timestamp() + _SECONDS
        return tf.while_loop(lambda now: now < until, lambda _: (tf.timestamp(),), [tf.timestamp()])

    for number in range(updates):
        coordinator.schedule(update, args=(tf.constant(number),))
    coordinator.join()
    sys.stdout.write(json.dumps({"applied": applied.numpy().tolist()}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
