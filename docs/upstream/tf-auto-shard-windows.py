"""Windows of the lines of files are made of every second line on each of two workers: lines are sharded before them."""

import json
import multiprocessing
import os
import socket
import tempfile


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = {f"{tempfile.mkdtemp()}/file": text for text in ("0\n1\n2\n3\n", "4\n5\n6\n7\n")}
    [tf.io.write_file(*file) for file in files.items()]
    lines = tf.data.TextLineDataset([*files]).map(lambda line: tf.strings.to_number(line, tf.int64))
    dataset = lines.window(2).flat_map(lambda window: window.batch(2)).batch(4)
    batches = strategy.experimental_distribute_dataset(dataset)
    found = sorted(tf.concat([strategy.gather(batch, 0) for batch in batches], 0).numpy().tolist())
    right = [[0, 1], [2, 3], [4, 5], [6, 7]]
    print("as it should be:" if found == right else "wrong:", "windows", found, "right:", right, flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
