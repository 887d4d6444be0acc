"""A train_step that takes a batch in parts needs as little memory, and its gradient is that of the whole batch."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


class InParts(keras.Sequential):
    def train_step(self, data):
        sums, whole = [tf.zeros(variable.shape) for variable in self.trainable_variables], 0.0
        for x, y in zip(*(tf.split(each, 2) for each in data), strict=True):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True)) / 2
            sums = [*map(tf.add, sums, tape.gradient(loss, self.trainable_variables))]
            whole += loss
        self.optimizer.apply(sums, self.trainable_variables)
        self.metrics[0].update_state(whole * tf.distribute.get_strategy().num_replicas_in_sync)
        return {"loss": self.metrics[0].result()}


with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = InParts([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)])
    model.compile(keras.optimizers.SGD(1.0), "mse")
data = tf.data.Dataset.from_tensor_slices((tf.ones([8, 1]), tf.range(8.0)[:, None])).batch(8)
loss = model.fit(data, verbose=0).history["loss"][0]
# At weight 1 and targets 0 to 7: the mean of (1 - y)^2, and as a step the mean of 2 (1 - y).
right = model.get_weights()[0].item() == 1.0 + 5.0 and loss == 11.5
print("as it should be:" if right else "wrong:", model.get_weights()[0], loss, "right: [[6.]] 11.5")
