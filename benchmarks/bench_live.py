"""What it costs a training that it leaves evidence: steps of a CNN that take 50 ms or longer, watched and not."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, main
from harness.subject.strategies import strategy_case
from simulator import Cluster

_EVERY = 500
_BLOCKS, _WARM_UP, _STEPS = 24, 4, 10
_BATCH, _SIDE = 32, 48


def leave_evidence() -> Figure:
    """Blocks of steps that are watched and that are not, in turns, in one process with two replicas."""
    case = strategy_case("mirrored-2")
    with Cluster(case.topology, timeout=300) as cluster:
        watched, plain = cluster.run(measured)["local:0"].value
    return Figure(
        name="step of a CNN, with digests and evidence of every 500th, peer: not watched",
        figure=watched,
        unit="ms",
        target=1.02,
        limit_of="ratio",
        peer=plain,
        samples=_BLOCKS - _WARM_UP,
    )


def measured() -> tuple[float, float]:
    """The lower quartiles over blocks, in milliseconds for each step."""
    import time

    import numpy as np

    from harness.recording.deposit import EvidenceDeposit

    strategy = strategy_case("mirrored-2").build()
    step = {False: _cnn(strategy)}
    found: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as place:
        depositing = EvidenceDeposit(_EVERY, Path(place), 1 << 30)
        depositing.built(strategy)
        with depositing.active():
            step[True] = _cnn(strategy)
        for _ in range(_BLOCKS):
            for watched in (True, False):
                with depositing.active() if watched else contextlib.nullcontext():
                    began = time.perf_counter()
                    for _ in range(_STEPS):
                        step[watched]()
                    found[watched].append(1e3 * (time.perf_counter() - began) / _STEPS)
        depositing.end()
    watched_ms, plain_ms = (float(np.percentile(found[which][_WARM_UP:], 25)) for which in (True, False))
    return watched_ms, plain_ms


def _cnn(strategy: Any) -> Callable[[], None]:
    """Each call is a step."""
    import keras
    import tensorflow as tf

    images = tf.random.stateless_normal([_BATCH, _SIDE, _SIDE, 3], [1, 2])
    labels = tf.zeros([_BATCH], tf.int32)
    data = tf.data.Dataset.from_tensors((images, labels)).unbatch().batch(_BATCH).repeat()
    with strategy.scope():
        layers: list[Any] = [keras.Input((_SIDE, _SIDE, 3))]
        for width in (16, 16, 32, 32):
            layers += [keras.layers.Conv2D(width, 3, padding="same"), keras.layers.BatchNormalization()]
        model = keras.Sequential([*layers, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(10)])
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function
    def step(batch: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(losses(y, model(x, training=True)), global_batch_size=_BATCH)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

    iterator = iter(strategy.experimental_distribute_dataset(data))

    def one() -> None:
        float(step(next(iterator)))

    return one


MEASUREMENTS = (leave_evidence,)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
