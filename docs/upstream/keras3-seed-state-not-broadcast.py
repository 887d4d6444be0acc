"""Dropout of Keras before 3.5 raises under MultiWorkerMirroredStrategy when it is created."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    try:
        with tf.distribute.MultiWorkerMirroredStrategy().scope():
            keras.layers.Dropout(0.5)
    except tf.errors.InvalidArgumentError as error:
        print("wrong:", error.message.partition(" is not in the list")[0], flush=True)
    os._exit(0)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
