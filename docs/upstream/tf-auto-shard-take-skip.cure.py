"""Sharded in a function, after `take` and `skip`, these are of all lines."""

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
    shard = strategy.distribute_datasets_from_function
    one = shard(lambda c: lines.take(2).shard(2, c.input_pipeline_id).batch(1))
    two = shard(lambda c: lines.skip(2).shard(2, c.input_pipeline_id).batch(1))
    found = [sorted(tf.concat([strategy.gather(b, 0) for b in part], 0).numpy().tolist()) for part in (one, two)]
    print("as it should be:" if found == [[0, 1], [*range(2, 8)]] else "wrong:", found, "right: 0, 1; 2-7", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
