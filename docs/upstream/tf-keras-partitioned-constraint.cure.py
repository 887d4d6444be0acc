"""The same with a partitioner that leaves variables of this size whole."""

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
halves = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=2)
with tf.distribute.ParameterServerStrategy(resolver, halves).scope():
    dense = tf_keras.layers.Dense(1, use_bias=False, kernel_constraint=tf_keras.constraints.MaxNorm(1.0))
    model = tf_keras.Sequential([tf_keras.Input((2,)), dense])
    model.compile(tf_keras.optimizers.SGD(1.0), "mse")
data = tf.data.Dataset.from_tensors((tf.ones([1, 2]), tf.fill([1, 1], 100.0)))
model.fit(data, steps_per_epoch=1, verbose=0)
norm = round(float(tf.norm(tf.concat(model.get_weights(), 0))), 3)
print("as it should be:" if norm == 1.0 else "wrong:", "norm of the column", norm, "right: 1.0", flush=True)
os._exit(0)
