"""The same with one seed on all workers: they shuffle alike, and each takes its part of the same order."""

import json
import multiprocessing
import os
import socket


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf
    import tf_keras

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    tf_keras.utils.set_random_seed(1)
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(tf_keras.optimizers.SGD(0.0), "mae")
    examples = 2.0 ** tf.range(16.0)[:, None]
    total = round(16 * model.fit(examples, 0 * examples, batch_size=4, verbose=0).history["loss"][0])
    print("as it should be:" if total == 65535 else "wrong:", "sum of examples", total, "right: 65535", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
