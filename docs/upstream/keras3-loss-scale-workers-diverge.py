"""Keras 3 LossScaleOptimizer hangs when gradients overflow on the first of two workers."""

import json
import multiprocessing
import os
import socket
import threading


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    with (strategy := tf.distribute.MultiWorkerMirroredStrategy()).scope():
        weight = keras.Variable([1.0])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])
    threading.Timer(20, lambda: (print(f"wrong: worker {mine} hangs", flush=True), os._exit(1))).start()
    gradient = tf.constant([0.0 if mine else float("inf")])
    tf.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(gradient, weight)])))()


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
