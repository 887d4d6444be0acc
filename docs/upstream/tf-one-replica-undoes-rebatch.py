"""Under a strategy with one replica a dataset that ends in `rebatch` has the batches from before it."""

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy(["CPU:0"])
dataset = tf.data.Dataset.range(9).batch(4).rebatch(3)
found = [batch.numpy().tolist() for batch in strategy.experimental_distribute_dataset(dataset)]
right = [batch.tolist() for batch in dataset.as_numpy_iterator()]
print("as it should be:" if found == right else "wrong:", "batches", found, "right:", right)
