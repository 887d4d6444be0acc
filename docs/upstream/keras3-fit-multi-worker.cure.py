"""tf_keras `fit` trains under MultiWorkerMirroredStrategy, and as one device does."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import numpy as np
    import tensorflow as tf
    import tf_keras as keras

    def trained(strategy):
        with strategy.scope():
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile("sgd", "mse")
        x = tf.range(4.0)[:, None]
        loss = model.fit(tf.data.Dataset.from_tensor_slices((x, x**2)).batch(4), verbose=0).history["loss"][0]
        return [round(number.item(), 5) for number in (np.float32(loss), *model.get_weights())]

    found, right = trained(tf.distribute.MultiWorkerMirroredStrategy()), trained(tf.distribute.get_strategy())
    print("as it should be:" if found == right else "wrong:", found, "right:", right, flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
