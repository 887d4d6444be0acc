"""Verify `Model.fit`, with Keras 3 and with Keras 2 (tf_keras): `python examples/verify_keras_fit.py`."""

from functools import partial

from harness import verify

GLOBAL_BATCH = 32


def train(strategy, record, *, flavour="keras"):
    """A small classifier; `record.keras_callback` reports every batch, and the end."""
    import importlib

    import numpy as np
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(128, 8)).astype("float32")
    labels = (features.sum(axis=1) > 0).astype("int64")
    dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(GLOBAL_BATCH)

    with strategy.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(2)])
        model.compile(
            optimizer=keras.optimizers.Adam(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(dataset, epochs=2, verbose=0, callbacks=[record.keras_callback(model)])


if __name__ == "__main__":
    print(verify(train, "mirrored-2"))
    print(verify(partial(train, flavour="tf_keras"), "multi_worker-2"))
