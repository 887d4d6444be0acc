"""With AutoShardPolicy.DATA the pipeline stays as it is, and batches are shared out."""

import pathlib
import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
folder = pathlib.Path(tempfile.mkdtemp())
for name in "abcd":
    (folder / name).write_text(name)
names = tf.data.Dataset.list_files(str(folder / "*"), shuffle=True, seed=1).repeat(3)
dataset = names.interleave(tf.data.TextLineDataset, cycle_length=1).batch(4)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
batches = strategy.experimental_distribute_dataset(dataset.with_options(options))
epochs = [b"".join(tf.concat(strategy.experimental_local_results(batch), 0).numpy()).decode() for batch in batches]
right = all(sorted(epoch) == list("abcd") for epoch in epochs)
print("as it should be:" if right else "wrong:", "epochs of four files:", epochs, "right: a, b, c and d once in each")
