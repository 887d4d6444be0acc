"""A LossScaleOptimizer that tells every worker of an overflow on any: all of them skip the step."""

import json
import multiprocessing
import os
import socket


def work(hosts: list[str], mine: int) -> None:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": mine}})
    import keras
    import tensorflow as tf

    class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
        def apply(self, gradients, trainable_variables=None):
            finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
            overflows = tf.distribute.get_replica_context().all_reduce("SUM", tf.where(finite, 0.0, 1.0))
            super().apply([tf.where(overflows > 0.0, float("nan"), each) for each in gradients], trainable_variables)

    with (strategy := tf.distribute.MultiWorkerMirroredStrategy()).scope():
        weight = keras.Variable([1.0])
        optimizer = LossScaleOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build([weight])
    gradient = tf.constant([0.0 if mine else float("inf")])
    tf.function(lambda: strategy.run(lambda: optimizer.apply_gradients([(gradient, weight)])))()
    found = [weight.numpy().item(), optimizer.dynamic_scale.numpy().item()]
    print("as it should be:" if found == [1.0, 16384.0] else "wrong:", "worker", mine, "has", found, flush=True)


if __name__ == "__main__":
    opened = [socket.create_server(("localhost", 0)) for _ in range(2)]
    hosts = [f"localhost:{server.getsockname()[1]}" for server in opened]
    del opened
    for index in range(2):
        multiprocessing.Process(target=work, args=(hosts, index)).start()
