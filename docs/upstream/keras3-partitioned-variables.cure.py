"""A tf_keras layer can be trained when a partitioner splits its variables."""

import os
import socket

import tensorflow as tf
import tf_keras as keras


def port() -> int:
    with socket.create_server(("localhost", 0)) as opened:
        return int(opened.getsockname()[1])


cluster = tf.train.ClusterSpec({job: [f"localhost:{port()}"] for job in ("worker", "ps")})
servers = [tf.distribute.Server(cluster, job_name=job, task_index=0, protocol="grpc") for job in cluster.jobs]
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, rpc_layer="grpc")
partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
with strategy.scope():
    dense = keras.layers.Dense(4, kernel_initializer="zeros")
    dense.build((None, 4))
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(dense(tf.ones([1, 4])))
gradients = tape.gradient(loss, dense.trainable_variables)
keras.optimizers.SGD(1.0).apply_gradients(zip(gradients, dense.trainable_variables, strict=True))
kernel = tf.concat([shard.numpy() for shard in dense.trainable_variables[:2]], 0).numpy()
right = kernel.shape == (4, 4) and (kernel == -1.0).all()
print("as it should be:" if right else "wrong:", "after a step the kernel is", kernel.tolist(), flush=True)
os._exit(0)
