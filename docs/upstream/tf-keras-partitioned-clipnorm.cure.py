"""The same with global_clipnorm, which has no parts; for several variables leave the partitioner out."""

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
halves = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
with tf.distribute.ParameterServerStrategy(resolver, halves).scope():
    model = tf_keras.Sequential([tf_keras.Input((2,)), tf_keras.layers.Dense(1, use_bias=False)])
    model.compile(tf_keras.optimizers.SGD(1.0, global_clipnorm=1.0), "mse")
before = model.get_weights()
data = tf.data.Dataset.from_tensors((tf.ones([1, 2]), tf.fill([1, 1], 100.0)))
model.fit(data, steps_per_epoch=1, verbose=0)
moved = tf.concat(model.get_weights(), 0) - tf.concat(before, 0)
length = round(float(tf.norm(moved)), 3)
print("as it should be:" if length == 1.0 else "wrong:", "length of the gradient", length, "right: 1.0", flush=True)
os._exit(0)
