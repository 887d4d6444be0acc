"""Each replica adds its gradients up in a variable of its own, and every second step applies them."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
own = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
with strategy.scope():
    weight = keras.Variable([1.0])
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([weight])
    added = tf.Variable(tf.zeros([1]), trainable=False, **own)


@tf.function
def add(gradient):
    strategy.run(lambda: added.assign_add(gradient / 2))


@tf.function
def apply():
    strategy.run(lambda: optimizer.apply_gradients([(added.read_value(), weight)]))
    strategy.run(lambda: added.assign([0.0]))


for step in range(4):
    add(tf.constant([float(step)]))
    if step % 2:
        apply()
right = 1.0 - 2 * (0 + 1) / 2 - 2 * (2 + 3) / 2  # two replicas, and the mean over two steps
print("as it should be:" if weight.numpy() == right else "wrong:", weight.numpy(), "right:", right)
