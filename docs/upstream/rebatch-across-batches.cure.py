"""With AutoShardPolicy.DATA batches are shared out by element, and each ends where it does in the dataset."""

import pathlib
import tempfile

import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
path = pathlib.Path(tempfile.mkdtemp()) / "examples"
path.write_text("\n".join("abcdef"))
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
dataset = tf.data.TextLineDataset(str(path)).batch(4).repeat(2).with_options(options)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
expected = [batch.tolist() for batch in dataset.as_numpy_iterator()]
seen = [
    tf.concat(strategy.experimental_local_results(batch), 0).numpy().tolist()
    for batch in strategy.experimental_distribute_dataset(dataset)
]
print("as it should be:" if seen == expected else "wrong:", "global batches are", seen)
