"""tf_keras optimizers with a learning rate schedule raise under CentralStorageStrategy."""

import tensorflow as tf
import tf_keras as keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
with strategy.scope():
    weight = tf.Variable(1.0)
    optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5))
    optimizer.build([weight])


@tf.function
def step():
    strategy.run(lambda: optimizer.apply_gradients([(tf.constant(0.5), weight)]))


try:
    step()
    step()
    # Rates 0.5 and 0.25, times 0.5 of each of two replicas.
    print("as it should be:" if weight == 0.25 else "wrong:", weight.numpy(), "right: 0.25")
except ValueError as error:
    print("wrong:", str(error).strip().splitlines()[-1].strip()[:110], "right: 0.25")
