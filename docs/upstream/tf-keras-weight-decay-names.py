"""tf_keras excludes a variable by its name from weight decay on the first replica only: the copies drift apart."""

import tensorflow as tf
import tf_keras

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1, bias_initializer="ones")])
    optimizer = tf_keras.optimizers.SGD(0.5, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=[model.layers[0].bias.name])
    model.compile(optimizer, "mse")
zeros = tf.zeros([4, 1])
model.fit(zeros, zeros + 1.0, batch_size=4, verbose=0)
biases = [copy.numpy().item() for copy in model.layers[0].bias.values]
print("as it should be:" if biases == [1.0, 1.0] else "wrong:", "bias on replicas", biases, "right: [1.0, 1.0]")
