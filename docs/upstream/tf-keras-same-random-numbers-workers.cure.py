"""The same with TensorFlow's generators, which add the number of the replica to their key."""

import json
import multiprocessing
import os
import socket


def work(hosts, mine):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import tensorflow as tf
    import tf_keras

    tf_keras.backend.experimental.enable_tf_random_generator()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.Input((64,)), tf_keras.layers.Dropout(0.5, seed=1)])
    gather, ones = lambda mask: tf.distribute.get_replica_context().all_gather(mask, axis=0), tf.ones([1, 64])
    masks = tf.function(lambda: strategy.run(lambda: gather(model(ones, training=True))))().numpy()
    alike = (masks[0] == masks[1]).all()
    print("wrong:" if alike else "as it should be:", "masks alike on workers:", alike, "right: False", flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
