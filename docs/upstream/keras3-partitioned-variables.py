"""A Keras 3 layer cannot be trained when a partitioner splits its variables."""

import os
import socket

import keras
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
    dense = keras.layers.Dense(4)
    dense.build((None, 4))
try:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dense(tf.ones([1, 4])))
    tape.gradient(loss, dense.trainable_variables)
except AttributeError as error:
    print("wrong:", error)
os._exit(0)
