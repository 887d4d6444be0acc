"""tf_keras `fit` gives batch callbacks the loss times the number of workers."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf
    import tf_keras

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(tf_keras.optimizers.SGD(0.0), lambda target, output: output[:, 0])
    show = tf_keras.callbacks.LambdaCallback(
        on_batch_end=lambda _, logs: print("as it should be:" if logs["loss"] == 1 else "wrong:", logs, "right: 1.0")
    )
    data = tf.data.Dataset.from_tensor_slices((tf.ones([4, 1]), tf.ones([4, 1]))).batch(4)
    model.fit(data, verbose=0, callbacks=[show])


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
