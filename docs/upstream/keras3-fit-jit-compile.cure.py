"""What each replica computes can be compiled by itself: a `call` in a `tf.function` of its own."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class Compiled(keras.Sequential):
    @tf.function(jit_compile=True)
    def call(self, *args, **options):
        return super().call(*args, **options)


def trained(strategy):
    with strategy.scope():
        model = Compiled([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False)
    x = tf.range(8.0)[:, None] / 8
    model.fit(tf.data.Dataset.from_tensor_slices((x, x**2)).batch(4), verbose=0)
    return [weight.item() for weight in model.get_weights()]


found = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
right = trained(tf.distribute.get_strategy())
close = all(abs(one - other) < 1e-6 for one, other in zip(found, right, strict=True))
print("as it should be:" if close else "wrong:", found, "right:", right)
