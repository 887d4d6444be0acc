"""tf_keras exact evaluation leaves regularization, add_loss and loss_weights out of the loss that it reports."""

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
    dense = tf_keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=tf_keras.regularizers.L2(2.0))
    model = tf_keras.Sequential([tf_keras.Input((1,)), dense])
    model.compile(tf_keras.optimizers.SGD(0.0), "mae", pss_evaluation_shards=1)
data = tf.data.Dataset.from_tensor_slices(([[1.0], [1.0]], [[0.0], [0.0]])).batch(1)
model.fit(data, steps_per_epoch=2, verbose=0)
loss = float(model.evaluate(data, verbose=0))
print("as it should be:" if loss == 3.0 else "wrong:", "loss", loss, "right: 3.0", flush=True)
os._exit(0)
