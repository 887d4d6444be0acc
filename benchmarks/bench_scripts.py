"""What it costs an unmodified script that its steps are seen: models of 50 thousand and of a million parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from benchmarks.bench_witness import measured
from benchmarks.measure import Figure, main
from harness.subject.strategies import strategy_case
from simulator import Cluster

# Hidden units of two layers, of 32 inputs and 10 outputs, and about how many parameters that makes.
_SIZES = {"50 thousand": 200, "a million": 980}
_BATCH = 64
_ALLOWED = 1.5
"""Times a step that nobody sees."""


def see_a_small_model() -> Figure:
    """A step of a model of 50 thousand parameters; seen and not."""
    return _figure("50 thousand", _ALLOWED)


def see_a_large_model() -> Figure:
    """A step of a model of a million parameters, of which elements are kept evenly apart."""
    return _figure("a million", _ALLOWED)


def _figure(size: str, target: float) -> Figure:
    case = strategy_case("mirrored-2")
    with Cluster(case.topology, timeout=240) as cluster:
        seen, alone = cluster.run(measured, functools.partial(_dense, _SIZES[size]))["local:0"].value
    return Figure(
        name=f"step of {size} parameters, seen, peer: unseen",
        figure=seen,
        unit="ms",
        target=target,
        limit_of="ratio",
        peer=alone,
        samples=32,
    )


def _dense(units: int, strategy: Any) -> Callable[[], None]:
    import keras
    import tensorflow as tf

    x = tf.random.stateless_normal([_BATCH, 32], seed=[1, 2])
    data = tf.data.Dataset.from_tensors((x, tf.reduce_sum(x, axis=1, keepdims=True))).repeat()
    with strategy.scope():
        layers = [keras.layers.Dense(units, "tanh"), keras.layers.Dense(units, "tanh"), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((32,)), *layers])
        optimizer = keras.optimizers.SGD(0.01)
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(batch: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                errors = tf.reduce_sum((model(x, training=True) - y) ** 2, axis=1)
                loss = tf.nn.compute_average_loss(errors, global_batch_size=_BATCH)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    iterator = iter(strategy.experimental_distribute_dataset(data))

    def one() -> None:
        float(step(next(iterator)))

    return one


MEASUREMENTS = (see_a_small_model, see_a_large_model)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
