"""`fit` of Keras before 3.7 gives callbacks NaN as the loss of a batch of which a replica has no examples."""

import keras
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse")
inputs = tf.constant([[2.0], [2.0], [2.0]])
data = tf.data.Dataset.from_tensor_slices((inputs, tf.zeros((3, 1)))).batch(2)
losses = []
callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(float(logs["loss"])))
model.fit(data, verbose=0, callbacks=[callback])
print(f"wrong: {losses} right: [4.0, 4.0]" if losses[1] != losses[1] else f"no NaN: {losses}")
