"""What the programs share: how a batch is divided, gradients are added up, and variables updated. Runs in tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_EPSILON = 1e-7


def batches(strategy: Any, columns: Sequence[Any], batch: int, split: str) -> Iterator[tuple[Any, ...]]:
    """The arguments of `strategy.run`, global batch by global batch; a replica passes them to `mine`.

    Args:
        strategy: of the run.
        columns: arrays of one row for each example.
        batch: examples of a global batch.
        split: `dataset`, and TensorFlow divides each batch; `slices`, and every replica gets all of it.
    """
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(tuple(columns)).batch(batch)
    yield from strategy.experimental_distribute_dataset(dataset) if split == "dataset" else dataset


def mine(split: str, columns: Sequence[Any]) -> tuple[Any, ...]:
    """In a replica: its rows of what `batches` gave; of `slices` every R-th one."""
    import tensorflow as tf

    if split == "dataset":
        return tuple(columns)
    context = tf.distribute.get_replica_context()
    first, every = context.replica_id_in_sync_group, context.num_replicas_in_sync
    return tuple(column[first::every] for column in columns)


def total(strategy: Any, values: Any) -> Any:
    """The sum over replicas of each value of any nesting."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda value: strategy.reduce("SUM", value, axis=None), values)


def reported(how: str, parts: Any, whole: Any) -> Any:
    """A number as programs report it: the replicas' `parts`, their `sum`, or that as a Python `float`."""
    return parts if how == "parts" else float(whole) if how == "float" else whole


def variable(value: Any, name: str, **options: Any) -> Any:
    """A variable that replicas may assign to if they all assign the same."""
    import tensorflow as tf

    once = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(value, name=name, aggregation=once, **options)


def named(model: Any, values: Sequence[Any]) -> dict[str, Any]:
    """Gradients of a Keras model by the paths of its variables."""
    return {each.path: value for each, value in zip(model.trainable_variables, values, strict=True)}


def keras_optimizer(kind: str, rate: float) -> Any:
    """An optimizer of Keras 3; build it inside of the scope."""
    import keras

    made: dict[str, Callable[[], Any]] = {
        "sgd": lambda: keras.optimizers.SGD(rate),
        "momentum": lambda: keras.optimizers.SGD(rate, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(rate / 10),
        "adamw": lambda: keras.optimizers.AdamW(rate / 10, weight_decay=0.01),
    }
    return made[kind]()


class Descent:
    """SGD, momentum or Adam by hand, for gradients that are added up already; made inside of the scope.

    `clip` bounds the norm of all gradients together, `decay` shrinks the variables apart from them.
    """

    def __init__(self, weights: Sequence[Any], kind: str, rate: float, clip: float | None = None, decay: float = 0.0):
        import tensorflow as tf

        self._weights, self._kind, self._rate, self._clip, self._decay = weights, kind, rate, clip, decay
        slots = {"sgd": (), "momentum": ("momentum",), "adam": ("mean", "square")}[kind]
        self._slots = [
            [variable(tf.zeros_like(each), f"{each.name.partition(':')[0]}/{slot}") for each in weights]
            for slot in slots
        ]
        self._count = variable(0, "iterations", dtype=tf.int64)

    @property
    def variables(self) -> list[Any]:
        """The slots and the number of updates."""
        return [*(slot for slots in self._slots for slot in slots), self._count]

    def apply(self, gradients: Sequence[Any]) -> None:
        """Update every variable, in a replica or outside of all."""
        import tensorflow as tf

        if self._clip is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip)
        self._count.assign_add(1)
        for place, (weight, gradient) in enumerate(zip(self._weights, gradients, strict=True)):
            change = self._rate * (self._direction(place, gradient) + self._decay * weight)
            weight.assign_sub(change)

    def _direction(self, place: int, gradient: Any) -> Any:
        import tensorflow as tf

        slots = [slot[place] for slot in self._slots]
        if self._kind == "sgd":
            return gradient
        if self._kind == "momentum":
            (momentum,) = slots
            momentum.assign(0.9 * momentum + gradient)
            return tf.identity(momentum)
        mean, square = slots
        mean.assign(0.9 * mean + 0.1 * gradient)
        square.assign(0.99 * square + 0.01 * gradient**2)
        count = tf.cast(self._count, gradient.dtype)
        return mean / (1 - 0.9**count) / (tf.sqrt(square / (1 - 0.99**count)) + _EPSILON)


def fit_by_hand(
    strategy: Any,
    record: Any,
    trained: Mapping[str, Any],
    output: Callable[[Any], Any],
    data: tuple[Any, Any],
    *,
    descent: Descent,
    batch: int,
    split: str,
    report: str,
) -> None:
    """Train variables once over the data by the mean squared error, and record everything.

    Args:
        strategy: of the run.
        record: of the run.
        trained: the variables of `descent`, in their order, by what their gradients are called.
        output: of inputs, of shape [examples, 1].
        data: inputs and targets, one row for each example.
        descent: updates the variables.
        batch: examples of a global batch.
        split: as of `batches`.
        report: as of `reported`.
    """
    import numpy as np
    import tensorflow as tf

    weights = list(trained.values())

    def replica_step(*columns: Any) -> Any:
        ids, x, y = mine(split, columns)
        with tf.GradientTape() as tape:
            value = tf.nn.compute_average_loss(tf.squeeze(output(x) - y, 1) ** 2, global_batch_size=batch)
        return value, [tf.convert_to_tensor(each) for each in tape.gradient(value, weights)], ids

    @tf.function(reduce_retracing=True)
    def step(columns: Any) -> Any:
        values, gradients, ids = strategy.run(replica_step, args=columns)
        summed = total(strategy, gradients)
        descent.apply(summed)
        return values, total(strategy, values), summed, ids

    variables = [*weights, *descent.variables]
    for columns in batches(strategy, (np.arange(len(data[0])), *data), batch, split):
        parts, whole, gradients, ids = step(columns)
        by_name = dict(zip(trained, gradients, strict=True))
        record.step(loss=reported(report, parts, whole), gradients=by_name, variables=variables, examples=ids)
    record.final(variables=variables, predictions=output(data[0][:6]))
