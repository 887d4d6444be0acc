"""The same with the weights of classes as sample weights of the dataset."""

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
    model.compile(tf_keras.optimizers.SGD(0.0), "mae")
data = tf.data.Dataset.from_tensor_slices(([[2.0], [3.0]], [[0.0], [1.0]])).batch(2)
data = data.map(lambda x, y: (x, y, tf.gather([0.0, 4.0], tf.cast(y[:, 0], tf.int32))))
loss = model.fit(data, steps_per_epoch=1, verbose=0).history["loss"][0]
print("as it should be:" if loss == 4.0 else "wrong:", "loss", loss, "right: 4.0", flush=True)
os._exit(0)
