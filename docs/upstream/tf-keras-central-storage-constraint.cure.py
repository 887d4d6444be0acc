"""A layer whose variables name the mean as their aggregation."""

import tensorflow as tf
import tf_keras as keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")


class Dense(keras.layers.Dense):
    def add_weight(self, *args, **options):
        return super().add_weight(*args, **options, aggregation=tf.VariableAggregation.MEAN)


with strategy.scope():
    layer = Dense(1, use_bias=False, kernel_constraint="non_neg", kernel_initializer="ones")
    layer.build((None, 2))
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build(layer.trainable_variables)

try:
    strategy.run(tf.function(lambda: optimizer.apply_gradients([(tf.ones([2, 1]), layer.kernel)])))
    found = f"{float(tf.reduce_sum(layer.kernel)):.0f}"
except ValueError as error:
    found = next(line for line in str(error).splitlines() if "aggregation" in line).strip()[:60]
print("as it should be:" if found == "0" else "wrong:", f"the weights are {found}, right: 0")
