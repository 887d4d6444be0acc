"""KerasHub: a BERT text classifier, small and untrained, by `fit` and by a loop of its own."""

# /// script
# dependencies = ["keras-hub==0.32.0"]
# [tool.lockstep]
# cases = ["fit mirrored-2", "loop multi_worker-2"]
# ///

import keras
import keras_hub
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
TOKENS = {
    "token_ids": rng.integers(1, 50, (64, 12)),
    "segment_ids": rng.integers(0, 2, (64, 12)),
    # As numbers: Keras 3 fit adds up the replicas' first batches to see their shapes, and truth values cannot be added.
    "padding_mask": (np.arange(12) < rng.integers(4, 13, (64, 1))).astype("int32"),
}
LABELS = rng.integers(0, 3, 64)


def classifier():
    backbone = keras_hub.models.BertBackbone(50, 2, 2, 16, 32, dropout=0.0, max_sequence_length=12)
    return keras_hub.models.BertTextClassifier(backbone, num_classes=3, dropout=0.0, preprocessor=None)


def fit(strategy, record):
    with strategy.scope():
        model = classifier()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.AdamW(1e-3), loss=loss, metrics=["accuracy"], jit_compile=False)
    callback = record.keras_callback(model)
    model.fit(TOKENS, LABELS, batch_size=16, shuffle=False, verbose=0, callbacks=[callback])


def loop(strategy, record):
    data = tf.data.Dataset.from_tensor_slices((TOKENS, LABELS)).batch(16)
    with strategy.scope():
        model = classifier()
        optimizer = keras.optimizers.AdamW(1e-3)
        optimizer.build(model.trainable_variables)

    def replica_step(tokens, labels):
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, model(tokens, training=True), True)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=16)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def step(batch):
        return strategy.run(replica_step, args=batch)

    for batch in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(batch), variables=[*model.variables, *optimizer.variables])
