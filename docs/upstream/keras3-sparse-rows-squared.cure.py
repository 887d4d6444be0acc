"""Dense gradients, which are added up before the optimizer has them."""

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
    gradient = tf.convert_to_tensor(tape.gradient(loss, table))
    optimizer.apply_gradients([(gradient, table)])


strategy.run(step)
found = f"{optimizer.variables[-1].numpy()}"
print("as it should be:" if found == "[2.]" else "wrong:", found, "right: [2.]")
