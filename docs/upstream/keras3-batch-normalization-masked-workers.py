"""Keras 3 BatchNormalization(synchronized=True) does not synchronize workers when its input has a mask."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    with (strategy := tf.distribute.MultiWorkerMirroredStrategy()).scope():
        layer = keras.layers.BatchNormalization(momentum=0.0, synchronized=True)
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
