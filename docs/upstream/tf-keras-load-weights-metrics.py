"""tf_keras load_weights of a .weights.h5 file raises in a strategy's scope once metrics have been used."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf
import tf_keras

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
path = pathlib.Path(tempfile.mkdtemp(), "model.weights.h5")
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = tf_keras.Sequential([tf_keras.Input((1,)), tf_keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 1)), np.ones((8, 1)), verbose=0)
    model.save_weights(path)
    try:
        model.load_weights(path)
        print("as it should be: loaded")
    except TypeError as error:
        print("wrong:", error)
