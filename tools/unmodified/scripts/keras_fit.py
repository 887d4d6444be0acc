"""As in TensorFlow's tutorial "Distributed training with Keras"."""

import os

import tensorflow as tf
from _data import load_data

strategy = tf.distribute.MirroredStrategy()
print(f"Number of devices: {strategy.num_replicas_in_sync}")
BUFFER_SIZE = 96
BATCH_SIZE_PER_REPLICA = 8
BATCH_SIZE = BATCH_SIZE_PER_REPLICA * strategy.num_replicas_in_sync


def scale(image, label):
    return tf.cast(image, tf.float32) / 4.0, label


train_dataset = tf.data.Dataset.from_tensor_slices(load_data(96)).map(scale).cache().shuffle(BUFFER_SIZE)
train_dataset = train_dataset.batch(BATCH_SIZE)
eval_dataset = tf.data.Dataset.from_tensor_slices(load_data(32)).map(scale).batch(BATCH_SIZE)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.Input((8, 8, 1)),
            tf.keras.layers.Conv2D(4, 3, activation="tanh"),
            tf.keras.layers.MaxPooling2D(),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="tanh"),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.Adam(learning_rate=0.001),
        metrics=["accuracy"],
    )

checkpoint_prefix = os.path.join("./training_checkpoints", "ckpt_{epoch}.weights.h5")


def decay(epoch):
    return 1e-3 if epoch < 1 else 1e-4


class PrintLR(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(f"\nLearning rate for epoch {epoch + 1} is {model.optimizer.learning_rate.numpy()}")


callbacks = [
    tf.keras.callbacks.ModelCheckpoint(filepath=checkpoint_prefix, save_weights_only=True),
    tf.keras.callbacks.LearningRateScheduler(decay),
    PrintLR(),
]
model.fit(train_dataset, epochs=3, callbacks=callbacks, verbose=2)
print("Eval loss: {}, Eval accuracy: {}".format(*model.evaluate(eval_dataset, verbose=0)))
model.save("my_model.keras")
