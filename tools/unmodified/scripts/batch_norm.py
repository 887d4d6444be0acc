"""A model with batch normalization of each replica's own examples, as it is by default."""

import tensorflow as tf
import tf_keras as keras
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, input_shape=(8, 8, 1)),
            keras.layers.BatchNormalization(),
            keras.layers.Activation("tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(*load_data(96), batch_size=8 * strategy.num_replicas_in_sync, epochs=1, verbose=0)
