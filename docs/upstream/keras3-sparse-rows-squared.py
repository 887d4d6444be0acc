"""Keras 3 Adam squares the rows that two replicas have for one index by themselves, and not their sum."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    table = tf.Variable([1.0])
    optimizer = keras.optimizers.Adam(1.0, beta_2=0.5)
    optimizer.build([table])


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.gather(table, [0]))
    optimizer.apply_gradients([(tape.gradient(loss, table), table)])


strategy.run(step)
found = f"{optimizer.variables[-1].numpy()}"
print("as it should be:" if found == "[2.]" else "wrong:", found, "right: [2.]")
