"""One dataset of the coordinator can be iterated again and again."""

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
per_worker = coordinator.create_per_worker_dataset(dataset)
iterators = [iter(per_worker) for _epoch in range(2)]
found = [int(coordinator.schedule(step, args=(iterator,)).fetch()) for iterator in iterators]
print("as it should be:" if found == [1, 1] else "wrong:", "sums", found, "right: [1, 1]", flush=True)
os._exit(0)
