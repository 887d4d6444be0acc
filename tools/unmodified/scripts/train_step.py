"""A model with its own `train_step`."""

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
PER_REPLICA = 8
GLOBAL_BATCH = PER_REPLICA * strategy.num_replicas_in_sync


class Classifier(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.flatten = tf.keras.layers.Flatten()
        self.hidden = tf.keras.layers.Dense(16, activation="tanh")
        self.logits = tf.keras.layers.Dense(10)

    def call(self, x):
        return self.logits(self.hidden(self.flatten(x)))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_sum(per_example) / GLOBAL_BATCH
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).batch(GLOBAL_BATCH)
with strategy.scope():
    model = Classifier()
    model(tf.zeros([1, 8, 8, 1]))
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3))
model.fit(dataset, epochs=2, verbose=0)
