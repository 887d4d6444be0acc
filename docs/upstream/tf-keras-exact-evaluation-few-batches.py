"""tf_keras exact evaluation raises for data of fewer batches than shards, of which "auto" has five per worker."""

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
    model.compile("sgd", "mse", metrics=["mae"], pss_evaluation_shards="auto")
data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.zeros([4, 1]))).batch(1)
model.compiled_loss.build(tf.zeros([1, 1]))
model.compiled_metrics.build(tf.zeros([1, 1]), tf.zeros([1, 1]))
try:
    found = model.evaluate(data, verbose=0)
    print("as it should be:" if found == [1.0, 1.0] else "wrong:", found, "right: [1.0, 1.0]", flush=True)
except tf.errors.InvalidArgumentError as error:
    print("wrong:", error.message[error.message.find("Could not") :][:70], "right: [1.0, 1.0]", flush=True)
os._exit(0)
