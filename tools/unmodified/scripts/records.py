"""TFRecord files, which the script writes if they are not there."""

import os

import numpy as np
import tensorflow as tf

os.makedirs("records", exist_ok=True)
path = os.path.join("records", "train.tfrecord")
if not os.path.exists(path):
    rng = np.random.default_rng(1)
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(48):
            x = rng.normal(size=3).astype("float32")
            features = {
                "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                "y": tf.train.Feature(float_list=tf.train.FloatList(value=[x.sum()])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def parse(record):
    spec = {"x": tf.io.FixedLenFeature([3], tf.float32), "y": tf.io.FixedLenFeature([1], tf.float32)}
    parsed = tf.io.parse_single_example(record, spec)
    return parsed["x"], parsed["y"]


strategy = tf.distribute.MirroredStrategy()
dataset = tf.data.TFRecordDataset(path).map(parse, num_parallel_calls=2).shuffle(48, seed=1)
dataset = dataset.batch(6 * strategy.num_replicas_in_sync).prefetch(2)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, "tanh"), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(dataset, epochs=3, verbose=2)
