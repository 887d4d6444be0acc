"""A subclass that computes the product anew for each variable, on each replica, from the number of the step."""

import tensorflow as tf
import tf_keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class Nadam(tf_keras.optimizers.Nadam):
    def update_step(self, gradient, variable):
        steps = tf.range(1, tf.minimum(self.iterations, 10_000) + 1)  # later ones leave it at 0
        factors = self.beta_1 * (1.0 - 0.5 * 0.96 ** tf.cast(steps, self._u_product.dtype))
        self._u_product.assign(tf.reduce_prod(factors))
        self._u_product_counter = 0  # no step's number, so that this step's factor comes to it
        super().update_step(gradient, variable)


def trained(strategy, kind, run=tf.function):
    with strategy.scope():
        weights = [tf.Variable([1.0]), tf.Variable([2.0])]
        optimizer = kind(0.1)
        optimizer.build(weights)

    @run
    def step():
        part = 1.0 / strategy.num_replicas_in_sync
        strategy.run(lambda: optimizer.apply_gradients([(tf.constant([part]), weight) for weight in weights]))

    for _ in range(3):
        step()
    return [copy.numpy().item() for weight in weights for copy in strategy.experimental_local_results(weight)]


found = trained(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), Nadam)
first, second = trained(tf.distribute.get_strategy(), tf_keras.optimizers.Nadam, run=lambda step: step)
close = all(abs(one - other) < 1e-5 for one, other in zip(found, [first, first, second, second], strict=True))
print("as it should be:" if close else "wrong:", found, "right:", first, second)
