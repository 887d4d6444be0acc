"""A slice of what a partitioned variable is as a tensor is that of the whole variable."""

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
    table = tf.Variable([[0.0], [1.0], [2.0], [3.0]])
whole = tf.convert_to_tensor(table)
found = [whole[..., 0:1, 0].numpy().tolist(), whole[tf.newaxis, 0:1, 0].numpy().tolist()]
right = [[0.0], [[0.0]]]
print("as it should be:" if found == right else "wrong:", found, "right:", right, flush=True)
os._exit(0)
