"""The training, as the project has it: a class, a configuration, and a loop that logs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Config:
    """What a training is."""

    global_batch: int = 16
    learning_rate: float = 0.1
    epochs: int = 1


class Trainer:
    """Logistic regression on points of the plane, in a custom loop."""

    def __init__(self, strategy: Any, config: Config) -> None:
        import tensorflow as tf

        self.strategy, self.config = strategy, config
        with strategy.scope():
            self.weights = tf.Variable(tf.zeros([2]), name="weights")
            self.bias = tf.Variable(0.0, name="bias")

    def data(self) -> Any:
        """64 points, and on which side of a line they are."""
        import numpy as np
        import tensorflow as tf

        points = np.random.default_rng(1).normal(size=(64, 2)).astype("float32")
        sides = (points @ [1.0, -2.0] > 0.3).astype("float32")
        batches = tf.data.Dataset.from_tensor_slices((points, sides)).batch(self.config.global_batch)
        return self.strategy.experimental_distribute_dataset(batches)

    def fit(self, log: Callable[[int, float], None] = lambda step, loss: None) -> None:
        """Train, and log each step's loss."""
        import tensorflow as tf

        @tf.function
        def train_step(batch: Any) -> Any:
            losses = self.strategy.run(self.replica_step, args=batch)
            return self.strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

        step = 0
        for _ in range(self.config.epochs):
            for batch in self.data():
                step += 1
                log(step, float(train_step(batch)))

    def replica_step(self, points: Any, sides: Any) -> Any:
        """What each replica does with its share of a batch."""
        import tensorflow as tf

        variables = [self.weights, self.bias]
        with tf.GradientTape() as tape:
            logits = tf.linalg.matvec(points, self.weights) + self.bias
            losses = tf.nn.sigmoid_cross_entropy_with_logits(sides, logits)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=self.config.global_batch)
        gradients = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, variables))
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(self.config.learning_rate * gradient)
        return loss
