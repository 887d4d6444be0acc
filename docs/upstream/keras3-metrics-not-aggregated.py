"""A metric of Keras before 3.7 under MirroredStrategy has the first replica's value."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    mean = keras.metrics.Mean()


def value_of(context):
    return tf.constant([4.0 * (context.replica_id_in_sync_group + 1)])


values = strategy.experimental_distribute_values_from_function(value_of)


@tf.function
def step():
    strategy.run(mean.update_state, args=(values,))


step()
result = float(mean.result())
print("right: 6.0" if result == 6.0 else f"wrong: {result} right: 6.0")
