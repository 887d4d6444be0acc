"""tf_keras fit and evaluate of arrays ignore sample_weight under ParameterServerStrategy."""

import os
import socket

import tensorflow as tf
import tf_keras


def port():
    with socket.create_server(("localhost", 0)) as opened:
        return opened.getsockname()[1]


cluster = tf.train.ClusterSpec({job: [f"localhost:{port()}"] for job in ("worker", "ps")})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0, protocol="grpc") for job in cluster.jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
with tf.distribute.ParameterServerStrategy(resolver).scope():
    model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile("sgd", "mae")
examples, weights = tf.constant([[1.0], [3.0]]), tf.constant([0.0, 1.0])
loss = model.evaluate(examples, 0 * examples, sample_weight=weights, batch_size=2, steps=1, verbose=0)
print("as it should be:" if loss == 1.5 else "wrong:", "loss", loss, "right: 1.5", flush=True)
os._exit(0)
