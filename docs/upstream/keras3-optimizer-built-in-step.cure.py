"""An optimizer that is built before the first step, in the strategy's scope, trains as on one device."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def trained(strategy):
    with strategy.scope():
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        optimizer = keras.optimizers.Adam(0.1)
        optimizer.build(model.trainable_variables)

    def replica_step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    @tf.function
    def step(x):
        strategy.run(replica_step, args=(x,))

    step(tf.ones([4, 1]))
    return [round(weight.item(), 5) for weight in model.get_weights()]


found, right = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])), trained(tf.distribute.get_strategy())
print("as it should be:" if found == right else "wrong:", found, "right:", right)
