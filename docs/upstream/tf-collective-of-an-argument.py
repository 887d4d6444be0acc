"""With one replica per worker all_reduce and all_gather raise for what a step was given, as it is."""

import json
import multiprocessing
import os
import socket


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    batches = iter(strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(4)))
    context = tf.distribute.get_replica_context
    step = tf.function(lambda batch: strategy.run(lambda rows: context().all_gather(rows, axis=0), (batch,)))
    try:
        found = step(next(batches)).numpy().tolist()
        print("as it should be:" if found == [0, 1, 2, 3] else "wrong:", found, "right: [0, 1, 2, 3]", flush=True)
    except ValueError as error:
        print("wrong:", str(error).strip().splitlines()[-1].strip(), "right: [0, 1, 2, 3]", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
