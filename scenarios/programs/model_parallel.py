"""One step of a two-layer network cut in two by `tf.device`: a whole batch, or a pipeline of microbatches; all numbers
exact.
"""

from __future__ import annotations

from typing import Any, Literal

from scenarios.programs import digits, margins

Schedule = Literal["whole", "pipeline", "pipeline_without_sum"]
# The loss, the gradients, the variables after the step, and the devices that they live on.
Result = dict[str, Any]
_HIDDEN = 8
_MICROBATCHES = 4


def train(devices: int, schedule: Schedule) -> Result:
    """Runs in one task: the first layer on the first logical device, the second on the last one.

    `pipeline` runs four microbatches through the two stages, each with its own gradient tape, and applies the sum of
    their gradients; the mistake `pipeline_without_sum` keeps the last microbatch's only.
    """
    import numpy as np
    import tensorflow as tf

    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert len(names) >= devices
    first, second = names[0], names[devices - 1]
    random = np.random.default_rng(5)
    with tf.device(first):
        lower = tf.Variable(random.integers(-1, 2, (64, _HIDDEN)).astype(np.float32), name="lower")
    with tf.device(second):
        upper = tf.Variable(random.integers(-1, 2, (_HIDDEN, digits.CLASSES)).astype(np.float32) / 8, name="upper")

    def gradients_of(pixels: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            with tf.device(first):
                hidden = tf.nn.relu(pixels @ lower)
            with tf.device(second):
                loss = tf.reduce_sum(margins.hinge(hidden @ upper, targets)) / margins.GLOBAL_BATCH
        return loss, tape.gradient(loss, [lower, upper])

    @tf.function
    def step(pixels: Any, targets: Any) -> Any:
        pieces = 1 if schedule == "whole" else _MICROBATCHES
        parts = [gradients_of(x, y) for x, y in zip(tf.split(pixels, pieces), tf.split(targets, pieces), strict=True)]
        loss = tf.add_n([part[0] for part in parts])
        if schedule == "pipeline_without_sum":
            parts = parts[-1:]
        gradients = [tf.add_n(list(pieces)) for pieces in zip(*(part[1] for part in parts), strict=True)]
        for variable, gradient in zip((lower, upper), gradients, strict=True):
            variable.assign_sub(gradient)
        return loss, gradients

    data = margins.load(margins.GLOBAL_BATCH)
    loss, gradients = step(tf.constant(data.pixels), tf.constant(data.targets))
    return {
        "loss": float(loss),
        "gradients": [gradient.numpy() for gradient in gradients],
        "variables": [lower.numpy(), upper.numpy()],
        "devices": [lower.device, upper.device],
    }
