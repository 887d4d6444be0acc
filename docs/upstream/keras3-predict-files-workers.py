"""Keras 3 predict over several workers gives the rows of a dataset of files in another order."""

import json
import multiprocessing
import os
import pathlib
import socket
import tempfile


def work(hosts, mine, files):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = keras.Sequential([keras.Input(()), keras.layers.Activation("linear")])
    rows = tf.data.TextLineDataset(files).batch(4).map(tf.strings.to_number)
    found = "".join(str(int(row)) for row in model.predict(rows, verbose=0))
    print("as it should be:" if found == "01234567" else "wrong:", found, "right: 01234567", flush=True)


if __name__ == "__main__":
    files = [tempfile.mkdtemp() + name for name in ("/0123", "/4567")]
    _ = [pathlib.Path(file).write_text("\n".join(file[-4:])) for file in files]
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in (opened.pop(), opened.pop())]
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index, files)).start()
