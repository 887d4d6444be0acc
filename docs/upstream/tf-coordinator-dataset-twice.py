"""A distributed dataset that a ClusterCoordinator has seen once cannot be given to it again: a bare AssertionError."""

import os
import socket

import tensorflow as tf

opened = [socket.create_server(("localhost", 0)) for _ in range(3)]
hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
del opened
cluster = tf.train.ClusterSpec({"chief": hosts[:1], "worker": hosts[1:2], "ps": hosts[2:]})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0) for job in ("worker", "ps")]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, "", "chief", 0, rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
step = tf.function(lambda batches: tf.reduce_sum(next(batches)))
try:
    iterators = [iter(coordinator.create_per_worker_dataset(dataset)) for _epoch in range(2)]
    found = [int(coordinator.schedule(step, args=(iterator,)).fetch()) for iterator in iterators]
    print("as it should be:" if found == [1, 1] else "wrong:", "sums", found, "right: [1, 1]", flush=True)
except AssertionError as error:
    print("wrong:", type(error).__name__, str(error).split(), "right: sums [1, 1] of the first batch", flush=True)
os._exit(0)
