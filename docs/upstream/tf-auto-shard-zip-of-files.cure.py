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
    files = {f"{tempfile.mkdtemp()}/file": text for text in ("0\n1\n2\n", "3\n4\n5\n", "0\n1\n", "2\n3\n", "4\n5\n")}
    [tf.io.write_file(*file) for file in files.items()]
    lines = tf.data.TextLineDataset([*files][:2]), tf.data.TextLineDataset([*files][2:])
    pairs = tf.data.Dataset.zip(lines).map(lambda *pair: tf.strings.to_number(tf.stack(pair), tf.int32))
    batches = strategy.distribute_datasets_from_function(lambda c: pairs.shard(2, c.input_pipeline_id).batch(2))
    found = sorted(tf.concat([strategy.gather(batch, 0) for batch in batches], 0).numpy().tolist())
    right = [[n, n] for n in range(6)]
    print("as it should be:" if found == right else "wrong:", "lines, labels", found, "right:", right, flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
