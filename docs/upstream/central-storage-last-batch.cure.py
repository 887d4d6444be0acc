"""Told to handle partial batches, as other strategies do by themselves, CentralStorageStrategy keeps the last one."""

import pathlib
import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
path = pathlib.Path(tempfile.mkdtemp()) / "examples"
path.write_text("\n".join("abcde"))
strategy = tf.distribute.experimental.CentralStorageStrategy(["CPU:0", "CPU:1"], "CPU:0")
strategy.extended.enable_partial_batch_handling = True
dataset = strategy.experimental_distribute_dataset(tf.data.TextLineDataset(str(path)).batch(4))
batches = [tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist() for batch in dataset]
right = batches == [[b"a", b"b", b"c", b"d"], [b"e"]]
print("as it should be:" if right else "wrong:", "of a, b, c, d, e there are", batches)
