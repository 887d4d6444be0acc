"""How many different random streams R replicas draw: R, or one that they all share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scenarios.programs import models

Source = Literal["dropout", "noise", "generator", "stateless", "stateless_shared"]
_SIZE = 256


def make(
    source: Source, flavour: models.Flavour = "keras", *, seeded: bool = False, global_seed: int | None = None
) -> Callable[[Any, Any], None]:
    """Draws 256 numbers on every replica in each of three steps and reports which share of all the draws are distinct.

    `dropout` and `noise` are Keras layers; `generator` is a `tf.random.Generator` created in the strategy's scope;
    `stateless` gives every replica and step its own seed, and the mistake `stateless_shared` gives replicas the same
    one. One device draws a new stream in each step, so that the share is 1; of R replicas that draw the same numbers it
    is 1 / R. With `global_seed` each process sets that of TensorFlow.
    """
    return functools.partial(_draw, source=source, flavour=flavour, seeded=seeded, global_seed=global_seed)


def _draw(
    strategy: Any, record: Any, *, source: Source, flavour: models.Flavour, seeded: bool, global_seed: int | None
) -> None:
    import numpy as np
    import tensorflow as tf

    if global_seed is not None:
        tf.random.set_seed(global_seed)
    with strategy.scope():
        draw = _source(source, models.keras_module(flavour), seeded)

    @tf.function
    def step(number: Any) -> Any:
        return strategy.gather(strategy.run(draw, args=(number,)), axis=0)

    drawn: list[Any] = []
    for number in range(3):
        drawn += list(step(tf.constant(number)).numpy())
        record.step(metrics={"distinct": len(np.unique(drawn, axis=0)) / len(drawn)})


def _source(source: Source, keras: Any, seeded: bool) -> Callable[[Any], Any]:
    """A function of the step's number that draws one row on the replica that calls it."""
    import tensorflow as tf

    seed = 7 if seeded else None
    if source in ("dropout", "noise"):
        layer = (
            keras.layers.Dropout(0.5, seed=seed) if source == "dropout" else keras.layers.GaussianNoise(1.0, seed=seed)
        )
        return lambda _: layer(tf.ones([1, _SIZE]), training=True)
    if source == "generator":
        generator = tf.random.Generator.from_seed(7)
        return lambda _: generator.uniform([1, _SIZE])

    def stateless(number: Any) -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group if source == "stateless" else 0
        return tf.random.stateless_uniform([1, _SIZE], seed=tf.stack([number, tf.cast(replica, tf.int32)]))

    return stateless
