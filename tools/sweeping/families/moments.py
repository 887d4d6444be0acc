"""moments: variances as E[x^2] - E[x]^2 from reduced moments, and what is normalized with them."""

from __future__ import annotations

from random import Random
from typing import Any

from tools.sweeping.keras_loop import train_model
from tools.sweeping.training import Descent, batches, mine, total, variable


def draw(random: Random) -> dict[str, Any]:
    """Of each column its unit and what it lies around in deviations: the larger, the more of the variance cancels."""
    return {
        "form": random.choice(["by_hand", "by_hand", "layer"]),
        "seed": random.randrange(2**20),
        "units": [10.0 ** random.randrange(-2, 5) for _ in range(random.choice([1, 2, 4]))],
        "around": random.choice([1.0, 5.0, 20.0]),
        "optimizer": random.choice(["sgd", "momentum"]),
        "rate": random.choice([0.02, 0.1]),
        "report": random.choice(["sum", "float"]),
    }


def train(strategy: Any, record: Any, *, form: str, **drawn: Any) -> None:
    """Normalize by hand over the global batch, or with Keras's synchronized layer, which computes variances so too."""
    (_layer if form == "layer" else _by_hand)(strategy, record, **drawn)


def _data(batch: int, steps: int, seed: int, units: list[float], around: float) -> tuple[Any, Any]:
    import numpy as np

    random = np.random.default_rng(seed)
    scaled = random.normal(size=(batch * steps, len(units)))
    targets = np.tanh(scaled @ random.normal(size=(len(units), 1)))
    return ((around + scaled) * units).astype("float32"), targets.astype("float32")


def _by_hand(
    strategy: Any,
    record: Any,
    *,
    batch: int,
    steps: int,
    split: str,
    seed: int,
    units: list[float],
    around: float,
    optimizer: str,
    rate: float,
    report: str,
) -> None:
    import numpy as np
    import tensorflow as tf

    features, targets = _data(batch, steps, seed, units, around)
    with strategy.scope():
        weights = variable(tf.zeros([len(units), 1]), "weights")
        moving = variable(tf.ones([len(units)]), "moving_variance")
        descent = Descent([weights], optimizer, rate)

    def moments(*columns: Any) -> Any:
        _, x, _ = mine(split, columns)
        return tf.reduce_sum(x, axis=0), tf.reduce_sum(x**2, axis=0)

    def replica_step(mean: Any, variance: Any, *columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            error = (x - mean) / tf.sqrt(variance + 1e-6) @ weights - y
            value = tf.nn.compute_average_loss(tf.squeeze(error, 1) ** 2, global_batch_size=batch)
        return value, tape.gradient(value, [weights]), ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        sums = total(strategy, strategy.run(moments, args=columns))
        mean, square = (each / batch for each in sums)
        variance = tf.maximum(square - mean**2, 0)
        moving.assign(0.9 * moving + 0.1 * variance)
        values, gradients, ids = strategy.run(replica_step, args=(mean, variance, *columns))
        summed = total(strategy, gradients)
        descent.apply(summed)
        return total(strategy, values), summed, sums, variance, ids

    for columns in batches(strategy, (np.arange(len(features)), features, targets), batch, split):
        whole, gradients, (plain, squared), variance, ids = step(columns)
        outside = squared.numpy().astype(np.float64) / batch - (plain.numpy().astype(np.float64) / batch) ** 2
        record.step(
            loss=float(whole) if report == "float" else whole,
            gradients={"weights": gradients[0]},
            variables=[weights, moving, *descent.variables],
            metrics={"variance": variance, "variance_np": outside, "deviation_0": float(abs(outside[0])) ** 0.5},
            examples=ids,
        )


def _layer(
    strategy: Any, record: Any, *, batch: int, steps: int, seed: int, units: list[float], around: float, **how: Any
) -> None:
    import keras

    def make() -> Any:
        initial = keras.initializers.GlorotUniform(seed=seed)
        return keras.Sequential(
            [
                keras.Input((len(units),)),
                keras.layers.BatchNormalization(momentum=0.9, synchronized=True),
                keras.layers.Dense(1, kernel_initializer=initial),
            ]
        )

    data = _data(batch, steps, seed, units, around)
    train_model(strategy, record, make, keras.losses.mean_squared_error, data, batch=batch, **how)
