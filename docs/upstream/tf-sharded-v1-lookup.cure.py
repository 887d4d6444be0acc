"""tf.nn.embedding_lookup of TensorFlow 2 knows how partitioners divide a variable: in blocks."""

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
    table = tf.Variable([0.0, 1.0, 2.0, 3.0])
lookup = tf.function(lambda: tf.nn.embedding_lookup(table, tf.constant([3, 1, 2])))
found = lookup().numpy().tolist()
print("as it should be:" if found == [3.0, 1.0, 2.0] else "wrong:", found, "right: [3.0, 1.0, 2.0]", flush=True)
os._exit(0)
