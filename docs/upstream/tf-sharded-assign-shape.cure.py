"""The program compares shapes before it assigns."""

import os
import socket

import tensorflow as tf


def port() -> int:
    with socket.create_server(("localhost", 0)) as opened:
        return int(opened.getsockname()[1])


cluster = tf.train.ClusterSpec({job: [f"localhost:{port()}"] for job in ("worker", "ps")})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0, protocol="grpc") for job in cluster.jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
with strategy.scope():
    table = tf.Variable(tf.zeros([4, 2]))
try:
    (value := tf.ones([6, 3])).shape.assert_is_compatible_with(table.shape)
    table.assign(value)
    found = f"of 6 rows by 3 columns it has {table.numpy().shape}"
except (ValueError, tf.errors.InvalidArgumentError):
    found = "an error"
print("as it should be:" if found == "an error" else "wrong:", found, "right: an error", flush=True)
os._exit(0)
