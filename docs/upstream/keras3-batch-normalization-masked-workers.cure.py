"""A subclass sums over all replicas what the mask leaves."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    class BatchNormalization(keras.layers.BatchNormalization):
        def _moments(self, inputs, mask):
            weights = tf.broadcast_to(tf.cast(mask, inputs.dtype)[..., None], tf.shape(inputs))
            axes = range(len(inputs.shape) - 1)
            all_reduce = tf.distribute.get_replica_context().all_reduce
            count, total = (all_reduce("SUM", tf.reduce_sum(each, axes)) for each in (weights, weights * inputs))
            squares = all_reduce("SUM", tf.reduce_sum(weights * (inputs - total / count) ** 2, axes))
            return total / count, squares / count

    with (strategy := tf.distribute.MultiWorkerMirroredStrategy()).scope():
        layer = BatchNormalization(momentum=0.0, synchronized=True)
        layer.build((None, 1, 1))
    x, mask = tf.fill([1, 1, 1], 8.0 * mine), tf.ones([1, 1], tf.bool)
    tf.function(lambda: strategy.run(lambda: layer(x, training=True, mask=mask)))()
    mean = layer.moving_mean.numpy()
    print("as it should be:" if mean == 4.0 else "wrong:", "worker", mine, mean, "right: [4.]", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
