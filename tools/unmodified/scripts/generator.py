"""Data from a Python generator."""

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 4 * strategy.num_replicas_in_sync


def examples():
    rng = np.random.default_rng(0)
    for _ in range(64):
        x = rng.normal(size=4).astype("float32")
        yield x, x.sum(keepdims=True)


signature = (tf.TensorSpec([4], tf.float32), tf.TensorSpec([1], tf.float32))
dataset = tf.data.Dataset.from_generator(examples, output_signature=signature).batch(GLOBAL_BATCH, drop_remainder=True)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.RMSprop(1e-3)
    optimizer.build(model.trainable_variables)


@tf.function
def train_step(inputs):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(tf.reduce_sum((model(x) - y) ** 2, 1), global_batch_size=GLOBAL_BATCH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=inputs), axis=None)


for inputs in strategy.experimental_distribute_dataset(dataset):
    loss = train_step(inputs)
print("loss", float(loss))
