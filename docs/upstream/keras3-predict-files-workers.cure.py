"""The same with a dataset that is shared out by element, which predict puts in order again."""

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
    options, policy = tf.data.Options(), tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    rows = tf.data.TextLineDataset(files).batch(4).map(tf.strings.to_number).with_options(options)
    found = "".join(str(int(row)) for row in model.predict(rows, verbose=0))
    print("as it should be:" if found == "01234567" else "wrong:", found, "right: 01234567", flush=True)


if __name__ == "__main__":
    files = [tempfile.mkdtemp() + name for name in ("/0123", "/4567")]
    _ = [pathlib.Path(file).write_text("\n".join(file[-4:])) for file in files]
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{opened.pop().getsockname()[1]}" for _ in range(2)]
    _ = [multiprocessing.Process(target=work, args=(hosts, index, files)).start() for index in range(2)]
