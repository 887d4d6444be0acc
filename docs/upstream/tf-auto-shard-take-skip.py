"""Sharded by file, each worker takes and skips as many lines as one device: four of eight are held out, and not two."""

import json
import multiprocessing
import os
import socket
import tempfile


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = [f"{tempfile.mkdtemp()}/file" for _ in range(2)]
    [tf.io.write_file(name, text) for name, text in zip(files, ("0\n1\n2\n3\n", "4\n5\n6\n7\n"), strict=True)]
    lines = tf.data.TextLineDataset(files).map(lambda line: tf.strings.to_number(line, tf.int64))
    parts = [strategy.experimental_distribute_dataset(part.batch(2)) for part in (lines.take(2), lines.skip(2))]
    found = [sorted(tf.concat([strategy.gather(batch, 0) for batch in part], 0).numpy().tolist()) for part in parts]
    right = "as it should be:" if found == [[0, 1], [2, 3, 4, 5, 6, 7]] else "wrong:"
    print(right, "take(2) and skip(2) of 0 to 7:", found, "right: 0 and 1, and 2 to 7", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
