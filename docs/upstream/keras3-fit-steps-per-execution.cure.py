"""A model that runs its steps one after the other in one graph, without conditionals around the replicas."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class Unrolled(keras.Sequential):
    def make_train_function(self, force=False):
        @tf.function
        def steps(iterator):
            for _ in range(self.steps_per_execution):  # of Python: the graph holds each step
                logs = self.distribute_strategy.run(self.train_step, args=(next(iterator),))
            return {name: self.distribute_strategy.experimental_local_results(value)[0] for name, value in logs.items()}

        self.train_function = steps


def trained(model_class, strategy, steps):
    with strategy.scope():
        model = model_class([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.1), "mse", steps_per_execution=steps)
    x = tf.range(16.0)[:, None] / 16
    loss = model.fit(tf.data.Dataset.from_tensor_slices((x, x**2)).batch(4), verbose=0).history["loss"][0]
    return round(loss, 5), round(model.get_weights()[0].item(), 5), int(model.optimizer.iterations.numpy())


found = trained(Unrolled, tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), 2)
right = trained(keras.Sequential, tf.distribute.get_strategy(), 1)
print("as it should be:" if found == right else "wrong:", found, "right:", right)
