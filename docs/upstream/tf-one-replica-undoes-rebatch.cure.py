"""With AutoShardPolicy.OFF nothing is rewritten, and `rebatch` stays."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["CPU:0"])
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
dataset = tf.data.Dataset.range(9).batch(4).rebatch(3).with_options(options)
found = [batch.numpy().tolist() for batch in strategy.experimental_distribute_dataset(dataset)]
right = [batch.tolist() for batch in dataset.as_numpy_iterator()]
print("as it should be:" if found == right else "wrong:", "batches", found, "right:", right)
