"""A custom loop with a checkpoint after every second step, from which it goes on when it is started again."""

import tensorflow as tf
from _data import load_data

STEPS = 12
strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, "tanh"),
            tf.keras.layers.Dense(10),
        ]
    )
    optimizer = tf.keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
step = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
manager = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)
dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).repeat().batch(GLOBAL_BATCH)
dataset = dataset.skip(step.numpy())


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_fn(y, model(x, training=True)), global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


batches = iter(strategy.experimental_distribute_dataset(dataset))
while step.numpy() < STEPS:
    loss = train_step(*next(batches))
    step.assign_add(1)
    if step.numpy() % 2 == 0:
        manager.save()
    print(f"step {step.numpy()}: loss {loss.numpy():.4f}")
