"""Keras 3's MelSpectrogram cuts off below the loudest example of the batch, which each replica has its own of."""

import keras
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
layer = keras.layers.MelSpectrogram(16, 8, num_mel_bins=4, sampling_rate=64, top_db=20.0, min_freq=1.0)
noise = tf.random.stateless_normal([2, 64], (1, 2))
sounds = noise * [[100.0], [1.0]]
one = layer(sounds)
batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(sounds).batch(2))
found = tf.concat([strategy.experimental_local_results(strategy.run(layer, (batch,))) for batch in batches], 0)
found = tf.reshape(found, one.shape)
off = float(tf.reduce_max(tf.abs(found - one)))
print(
    "as it should be:" if off < 1e-3 else "wrong:", f"two replicas and one device differ by {off:.1f} dB, right: 0 dB"
)
