"""Optimizers of Keras before 3.5 apply each replica's own gradient in a custom loop: copies of weights drift apart."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    weights = keras.Variable([0.0])
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([weights])


def replica():
    own = 1.0 + tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
    optimizer.apply_gradients([(own[None], weights)])


tf.function(lambda: strategy.run(replica))()
copies = [float(copy[0]) for copy in strategy.experimental_local_results(weights.value)]
print("right" if copies == [-3.0, -3.0] else f"wrong: the copies are {copies}, right: both -3.0")
