"""Two networks with an optimizer each."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
GLOBAL_BATCH = 8 * strategy.num_replicas_in_sync
images, _ = load_data(64)
noise = tf.random.stateless_normal([64, 5], seed=[5, 6])
dataset = tf.data.Dataset.from_tensor_slices((images, noise)).batch(GLOBAL_BATCH)
distributed = strategy.experimental_distribute_dataset(dataset)
with strategy.scope():
    generator = tf.keras.Sequential(
        [tf.keras.Input((5,)), tf.keras.layers.Dense(64, activation="tanh"), tf.keras.layers.Reshape((8, 8, 1))]
    )
    discriminator = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(8, "tanh"),
            tf.keras.layers.Dense(1),
        ]
    )
    g_optimizer, d_optimizer = tf.keras.optimizers.Adam(1e-3), tf.keras.optimizers.Adam(1e-3)
    g_optimizer.build(generator.trainable_variables)
    d_optimizer.build(discriminator.trainable_variables)


def average(labels, logits):
    per_example = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels * tf.ones_like(logits), logits=logits)
    return tf.nn.compute_average_loss(per_example[:, 0], global_batch_size=GLOBAL_BATCH)


def replica_step(real, z):
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fake = generator(z, training=True)
        real_logits, fake_logits = discriminator(real, training=True), discriminator(fake, training=True)
        g_loss = average(1.0, fake_logits)
        d_loss = average(1.0, real_logits) + average(0.0, fake_logits)
    g_gradients = g_tape.gradient(g_loss, generator.trainable_variables)
    d_gradients = d_tape.gradient(d_loss, discriminator.trainable_variables)
    g_optimizer.apply_gradients(zip(g_gradients, generator.trainable_variables))
    d_optimizer.apply_gradients(zip(d_gradients, discriminator.trainable_variables))
    return g_loss, d_loss


@tf.function
def train_step(batch):
    losses = strategy.run(replica_step, args=batch)
    return [strategy.reduce(tf.distribute.ReduceOp.SUM, loss, axis=None) for loss in losses]


for epoch in range(2):
    for batch in distributed:
        g_loss, d_loss = train_step(batch)
    print(epoch, float(g_loss), float(d_loss))
