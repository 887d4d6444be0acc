"""`fit` with `steps_per_epoch` of Keras 3.5 and 3.6 takes the first batch of the data under a strategy, and trains
on the others.
"""

import keras
import tensorflow as tf

with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse")
inputs = tf.constant([[1.0], [2.0], [3.0]])
data = tf.data.Dataset.from_tensor_slices((inputs, tf.zeros((3, 1)))).batch(1).repeat()
loss = model.fit(data, steps_per_epoch=1, verbose=0).history["loss"][0]
print("right: the loss of [[1.0]] is 1.0" if loss == 1.0 else f"wrong: the loss is {loss}, right: 1.0, of [[1.0]]")
