"""How long one `verify` of a small program takes once the fork server is warm."""

from __future__ import annotations

from typing import Any

from benchmarks.measure import Figure, main, median, seconds_of
from harness import verify

_ROUNDS = 5


def train(strategy: Any, record: Any) -> None:
    """Fit a line with plain gradient descent: three steps of a global batch of 8."""
    import numpy as np
    import tensorflow as tf

    inputs = np.linspace(-1, 1, 24, dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices((inputs, 3 * inputs + 1)).batch(8)
    with strategy.scope():
        slope, offset = (tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM) for _ in range(2))

    @tf.function
    def step(x: Any, y: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((slope * x + offset - y) ** 2) / 8
            gradients = tape.gradient(loss, [slope, offset])
            # The aggregation adds up what the replicas subtract.
            slope.assign_sub(0.1 * gradients[0])
            offset.assign_sub(0.1 * gradients[1])
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(x, y)), axis=None)

    for x, y in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(x, y), variables=[slope, offset])
    record.final(variables=[slope, offset])


def verify_mirrored() -> Figure:
    """Verify the program under mirrored-2, after one warm-up that starts the fork server."""
    _verify()
    seconds = [seconds_of(_verify) for _ in range(_ROUNDS)]
    return Figure(
        name="verify a small program, mirrored-2, warm", figure=median(seconds), unit="s", target=2.5, samples=_ROUNDS
    )


def _verify() -> None:
    verdict = verify(train, "mirrored-2")
    assert verdict, str(verdict)


MEASUREMENTS = (verify_mirrored,)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
