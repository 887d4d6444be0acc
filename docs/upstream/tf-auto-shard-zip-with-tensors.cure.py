"""Sharded in a function, by pairs, each line keeps its label."""

import json
import multiprocessing
import os
import socket
import tempfile


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = [f"{tempfile.mkdtemp()}/{number}" for number in (0, 2, 4, 6)]
    [tf.io.write_file(name, f"{name[-1]}\n{int(name[-1]) + 1}\n") for name in files]
    lines = tf.data.TextLineDataset(files).map(lambda line: tf.strings.to_number(line, tf.int64))
    pairs = tf.data.Dataset.zip((lines, tf.data.Dataset.range(8))).map(lambda *pair: tf.stack(pair))
    batches = strategy.distribute_datasets_from_function(lambda c: pairs.shard(2, c.input_pipeline_id).batch(2))
    found = sorted(tf.concat([strategy.gather(batch, 0) for batch in batches], 0).numpy().tolist())
    right = "as it should be:" if found == [[n, n] for n in range(8)] else "wrong:"
    print(right, "lines and labels", found, "right: each line n with label n, 0 to 7", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
