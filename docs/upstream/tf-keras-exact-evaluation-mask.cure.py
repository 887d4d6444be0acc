"""The same with the mask as sample weights of the dataset."""

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
    dense = tf_keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="ones")
    model = tf_keras.Sequential([tf_keras.Input((2, 1)), tf_keras.layers.Masking(0.0), dense])
    model.compile(tf_keras.optimizers.SGD(0.0), "mae", weighted_metrics=["mae"], pss_evaluation_shards=1)
examples = tf.constant([[[1.0], [0.0]], [[1.0], [0.0]]])
mask = tf.cast(examples[..., 0] != 0, tf.float32)
data = tf.data.Dataset.from_tensor_slices((examples, 0 * examples, mask)).batch(1)
model.fit(data, steps_per_epoch=2, verbose=0)
found = float(model.evaluate(data, verbose=0)[1])
print("as it should be:" if found == 2.0 else "wrong:", "mean absolute error", found, "right: 2.0", flush=True)
os._exit(0)
