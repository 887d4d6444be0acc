"""Mixed precision in Keras 2, in a loop that resumes from checkpoints."""

import tensorflow as tf
import tf_keras as keras
from _data import load_data

keras.mixed_precision.set_global_policy("mixed_bfloat16")
strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
dataset = tf.data.Dataset.from_tensor_slices(load_data(64)).batch(GLOBAL_BATCH)
with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Flatten(input_shape=(8, 8, 1)),
            keras.layers.Dense(16, "tanh"),
            keras.layers.Dense(10, dtype="float32"),
        ]
    )
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
manager = tf.train.CheckpointManager(checkpoint, "./ckpts", max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)


@tf.function
def train_step(batch):
    def replica_step(images, labels):
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=GLOBAL_BATCH)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.reduce("SUM", strategy.run(replica_step, args=batch), axis=None)


for epoch in range(2):
    for batch in strategy.experimental_distribute_dataset(dataset):
        loss = train_step(batch)
    manager.save()
    print(epoch, float(loss))
