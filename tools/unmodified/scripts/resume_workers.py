"""Two workers that save together after each epoch, as TensorFlow's tutorial on several workers does."""

import os

import tensorflow as tf
from _data import load_data

EPOCHS, STEPS_PER_EPOCH, BATCH = 3, 4, 8
strategy = tf.distribute.MultiWorkerMirroredStrategy()
GLOBAL_BATCH = BATCH * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(64)).batch(GLOBAL_BATCH)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, "tanh"),
            tf.keras.layers.Dense(10),
        ]
    )
    optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
epoch = tf.Variable(0, dtype=tf.int64, name="epoch")


def write_dir():
    resolver = strategy.cluster_resolver
    is_chief = resolver.task_type in (None, "chief") or resolver.task_id == 0
    return "ckpt" if is_chief else os.path.join("ckpt", f"workertemp_{resolver.task_id}")


@tf.function
def train_step(x, y):
    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(loss_fn(y, model(x, training=True)), global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)


checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch)
manager = tf.train.CheckpointManager(checkpoint, write_dir(), max_to_keep=1)
latest = tf.train.latest_checkpoint("ckpt")
if latest:
    checkpoint.restore(latest)
distributed = strategy.experimental_distribute_dataset(dataset.with_options(options))
while epoch.numpy() < EPOCHS:
    total = 0.0
    for x, y in distributed:
        total += train_step(x, y)
    print(f"epoch {epoch.numpy()}: loss {total / STEPS_PER_EPOCH:.4f}")
    epoch.assign_add(1)
    manager.save()
