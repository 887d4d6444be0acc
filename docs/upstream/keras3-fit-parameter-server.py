"""Keras 3 `fit` raises under ParameterServerStrategy."""

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
strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.ones([4, 1]))).batch(4)
try:
    model.fit(data, steps_per_epoch=1, verbose=0)
except ValueError as error:
    print("wrong:", error)
os._exit(0)
