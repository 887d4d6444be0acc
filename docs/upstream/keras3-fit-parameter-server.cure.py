"""tf_keras `fit` gives its dataset to a coordinator, and trains under ParameterServerStrategy."""

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
strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="zeros")])
    model.compile(keras.optimizers.SGD(0.25), "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.ones([4, 1]))).batch(4)
loss = model.fit(data, steps_per_epoch=1, verbose=0).history["loss"][0]
weights = [weight.item() for weight in model.get_weights()]
print("as it should be:" if loss == 1.0 and weights == [0.5, 0.5] else "wrong:", loss, weights, flush=True)
os._exit(0)
