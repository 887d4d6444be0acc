"""What it costs to infer relations over a traced step, next to tracing it; no step is run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.measure import Figure, main, median
from harness import Proof, prove


def digits() -> Figure:
    """A small convolutional network with Adam."""
    return _figure("infer over a CNN for digits, peer: its tracing", _digits, 3)


def mobilenet() -> Figure:
    """Keras's MobileNetV2: 10,700 operations of run and reference."""
    return _figure("infer over MobileNetV2, peer: its tracing", _mobilenet, 1)


def _figure(name: str, program: Callable[[Any, Any], None], rounds: int) -> Figure:
    proofs = [_decided(prove(program, "mirrored-2", timeout=300.0)) for _ in range(rounds)]
    return Figure(
        name=name,
        figure=median([proof.inferring_seconds for proof in proofs]),
        unit="s",
        target=0.1,
        limit_of="ratio",
        peer=median([proof.tracing_seconds for proof in proofs]),
        samples=rounds,
    )


def _decided(proof: Proof) -> Proof:
    """What is inferred until something stops it may be little."""
    assert proof, str(proof)
    return proof


def _digits(strategy: Any, record: Any) -> None:
    import keras

    def build() -> Any:
        layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(10)]
        return keras.Sequential([keras.Input((8, 8, 1)), *layers])

    _train(strategy, record, build, (8, 8, 1), keras.optimizers.Adam)


def _mobilenet(strategy: Any, record: Any) -> None:
    import keras

    def build() -> Any:
        return keras.applications.MobileNetV2((32, 32, 3), 0.35, weights=None, classes=10, classifier_activation=None)

    _train(strategy, record, build, (32, 32, 3), keras.optimizers.SGD)


def _train(strategy: Any, record: Any, build: Callable[[], Any], shape: tuple[int, ...], optimizer: Any) -> None:
    """A custom loop over a batch of images that are drawn."""
    import numpy as np
    import tensorflow as tf

    batch = 8
    random = np.random.default_rng(0)
    examples = random.normal(size=(batch, *shape)).astype("float32"), random.integers(0, 10, batch).astype("int32")
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(examples).batch(batch))
    with strategy.scope():
        model, update = build(), optimizer(0.01)

    def replica_step(images: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, model(images, training=False))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch)
        update.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    @tf.function
    def train_step(images: Any, labels: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, args=(images, labels)), axis=None)

    for images, labels in dataset:
        record.step(loss=train_step(images, labels), variables=model.trainable_variables)


MEASUREMENTS = (digits, mobilenet)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
