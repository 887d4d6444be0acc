"""What it costs that the harness sees a step by itself: one of the digits CNN with the seams and without."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure, main
from harness.evidence.writing import TraceWriter
from harness.recording.witness import Witness, all_seams
from harness.subject.strategies import strategy_case
from simulator import Cluster

_BLOCKS, _WARM_UP, _STEPS = 40, 8, 16
"""A block has as many steps as the witness writes together."""


def see_a_step() -> Figure:
    """Blocks of steps with the seams and without them, in turns, in one process with two replicas."""
    case = strategy_case("mirrored-2")
    with Cluster(case.topology, timeout=120) as cluster:
        seen, alone = cluster.run(measured)["local:0"].value
    return Figure(
        name="step of the digits CNN, seen, peer: unseen",
        figure=seen,
        unit="ms",
        target=1.1,
        limit_of="ratio",
        peer=alone,
        samples=_BLOCKS - _WARM_UP,
    )


def measured(training: Callable[[Any], Callable[[], None]] | None = None) -> tuple[float, float]:
    """The lower quartiles over blocks, in milliseconds for each step: what else runs here only makes a block longer.

    Args:
        training: makes what is measured under a strategy; by default the digits CNN.
    """
    training = training or digits_cnn
    import time

    import numpy as np

    strategy = strategy_case("mirrored-2").build()
    step = {False: training(strategy)}
    found: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as place:
        writer = TraceWriter(Path(place, "trace"))
        witness = Witness(strategy, 2, all_seams())
        with witness.active(writer.write):
            step[True] = training(strategy)
        for _ in range(_BLOCKS):
            for looking in (True, False):
                with contextlib.ExitStack() as stack:
                    if looking:
                        stack.enter_context(witness.active(writer.write))
                    began = time.perf_counter()
                    for _ in range(_STEPS):
                        step[looking]()
                    if looking:
                        witness.reported((), step=False)  # looks at the last step
                        witness.send_held()
                    found[looking].append(1e3 * (time.perf_counter() - began) / _STEPS)
    seen, alone = (float(np.percentile(times[_WARM_UP:], 25)) for times in (found[True], found[False]))
    return seen, alone


def digits_cnn(strategy: Any) -> Callable[[], None]:
    """The CNN of `benchmarks.bench_ledger` with Adam; each call is a step on a global batch of 48."""
    import keras
    import tensorflow as tf

    from scenarios.programs import digits

    data = digits.batches(digits.load()).repeat()
    with strategy.scope():
        layers = [keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(10)]
        model = keras.Sequential([keras.Input((8, 8, 1)), *layers])
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
        losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    @tf.function
    def step(batch: Any) -> Any:
        def replica(images: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(losses(labels, model(images)), global_batch_size=digits.GLOBAL_BATCH)
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=batch[1:]), axis=None)

    iterator = iter(strategy.experimental_distribute_dataset(data))

    def one() -> None:
        float(step(next(iterator)))

    return one


MEASUREMENTS = (see_a_step,)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
