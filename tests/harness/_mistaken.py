"""Real TensorFlow programs with the mistakes that explanations name, a switch for each.

One replica hides every one of them.

A small regression of 12 examples a step, and 7 in the last, with hand-written SGD, momentum or Adam; all report what
each replica contributed. They import TensorFlow when they are called, which happens in tasks only.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from harness.subject.program import Program
from tests.harness._sharing import sharing

BATCHES = (12, 12, 12, 7)
_SHAPES = {"hidden": (5, 6), "bias": (6,), "out": (6, 1)}


def _program(train: Callable[..., Any], mistake: str, **options: Any) -> Program:
    """The program with a mistake; its reference is that of the program without, and both share one run of it."""
    right = functools.partial(train, mistake="", **options)
    return sharing(functools.partial(train, mistake=mistake, **options), right)


def regression(mistake: str = "", optimizer: str = "momentum", extra: str = "") -> Program:
    """A step at a time; see the uses of `wrong` for what may go wrong.

    `extra` makes the right program clip by `norm` or `value`, or skip an update whose gradients `overflow`.
    """
    return _program(_regression, mistake, optimizer=optimizer, extra=extra)


def _data(count: int) -> tuple[Any, Any, Any]:
    import numpy as np

    random = np.random.default_rng(3)
    x = random.standard_normal((count, 5)).astype(np.float32)
    return np.arange(count), x, np.sin(2 * x.sum(axis=1, keepdims=True)).astype(np.float32)


def _batches(strategy: Any, wrong: str, extra: str) -> Any:
    """The distributed batches: (ids, x, y, how many examples the global batch has)."""
    import numpy as np
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    ids, x, y = _data(sum(BATCHES))
    if extra == "overflow":
        y[BATCHES[0] + BATCHES[1] - 1] = np.inf
    ends = np.cumsum((0, *BATCHES))
    slices = [np.arange(a, b) for a, b in itertools.pairwise(ends)]

    def shard(context: Any) -> Any:
        """What each replica reads, one after another: step by step, replica by replica."""
        parts = []
        for k, rows in enumerate(slices):
            shares = np.array_split(rows, count)
            if wrong == "overlap":
                shares = [np.concatenate([share[:-1], shares[0][:1]]) for share in shares]
            if wrong == "tail_dropped" and k == len(slices) - 1:
                shares = [share[: len(rows) // count] for share in shares]
            parts += shares
        if wrong == "global_batch":
            parts = [slices[k % len(slices)] for k in range(len(slices) // count * count)]

        def produce() -> Any:
            for k, rows in enumerate(parts):
                total = len(rows) * count if wrong == "global_batch" else len(slices[k // count])
                yield ids[rows], x[rows], y[rows], np.float32(total)

        kinds = [((None,), tf.int64), ((None, 5), tf.float32), ((None, 1), tf.float32), ((), tf.float32)]
        return tf.data.Dataset.from_generator(
            produce, output_signature=tuple(tf.TensorSpec(shape, dtype) for shape, dtype in kinds)
        )

    return strategy.distribute_datasets_from_function(shard)


def _apply(variable: Any, gradient: Any, first: Any, second: Any, kind: str, step: Any, go: Any = True) -> None:
    """One update of one copy, unless it is to be skipped."""
    import tensorflow as tf

    if not go:
        return
    if kind == "adam":
        first.assign(0.9 * first + 0.1 * gradient)
        second.assign(0.999 * second + 0.001 * gradient**2)
        scale = 0.05 * tf.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        variable.assign_sub(scale * first / (tf.sqrt(second) + 1e-7))
    else:
        first.assign((0.9 if kind == "momentum" else 0.0) * first + gradient)
        variable.assign_sub(0.05 * first)


def _regression(strategy: Any, record: Any, *, mistake: str, optimizer: str, extra: str) -> None:
    import tensorflow as tf

    run = _Regression(strategy, mistake if strategy.num_replicas_in_sync > 1 else "", optimizer, extra)
    for index, (ids, x, y, total) in enumerate(_batches(strategy, run.wrong, extra), start=1):
        loss, gradients, seen = strategy.run(run.replica_step, args=(tf.constant(float(index)), ids, x, y, total))
        if run.wrong == "hidden_mean_then_sum":
            loss = strategy.reduce(tf.distribute.ReduceOp.MEAN, loss, axis=None)
        record.step(
            loss=loss,
            gradients=run.applied or gradients,
            variables=[*run.weights, *run.first, *run.second],
            examples=seen,
        )


class _Regression:
    """The variables of a run, and a step of it; what is wrong differs from what is right by a line or two."""

    def __init__(self, strategy: Any, wrong: str, optimizer: str, extra: str) -> None:
        import numpy as np
        import tensorflow as tf

        self.count, self.wrong, self.optimizer, self.extra = strategy.num_replicas_in_sync, wrong, optimizer, extra
        self.applied: list[Any] = []
        random = np.random.default_rng(7)
        with strategy.scope():
            self.weights = [
                tf.Variable(random.standard_normal(shape).astype(np.float32), name=name)
                for name, shape in _SHAPES.items()
            ]
            self.first, self.second = (
                [tf.Variable(tf.zeros(shape), name=f"{name}/{slot}") for name, shape in _SHAPES.items()]
                for slot in ("momentum", "velocity")
            )

    def replica_step(self, step: Any, ids: Any, x: Any, y: Any, total: Any) -> tuple[Any, list[Any], Any]:
        import tensorflow as tf

        with tf.GradientTape() as tape:
            error = (tf.tanh(x @ self.weights[0] + self.weights[1]) @ self.weights[2] - y) ** 2
            loss = self._loss(tf.reduce_sum(error), total, tf.cast(tf.size(ids), tf.float32))
        gradients = tape.gradient(loss, self.weights)
        if self.wrong in ("clip_first", "clip_unseen"):
            clipped = self._clipped(gradients)
            applied, gradients = clipped, clipped if self.wrong == "clip_first" else gradients
        else:
            applied = gradients
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])
        tf.distribute.get_replica_context().merge_call(self._update, args=(applied, finite, step))
        return loss, gradients, ids

    def _loss(self, errors: Any, total: Any, local: Any) -> Any:
        import tensorflow as tf

        penalty = 0.03 * tf.add_n([tf.reduce_sum(kernel**2) for kernel in (self.weights[0], self.weights[2])])
        if self.wrong in ("mean_then_sum", "hidden_mean_then_sum"):
            return errors / local + penalty
        if self.wrong == "mean_of_means":
            return (errors / local + penalty) / self.count
        loss = errors / total + (penalty if self.wrong == "regularizer" else penalty / self.count)
        return loss / self.count if self.wrong == "sum_then_mean" else loss

    def _clipped(self, gradients: list[Any]) -> list[Any]:
        import tensorflow as tf

        if self.extra == "norm":
            return list(tf.clip_by_global_norm(gradients, 0.5)[0])
        return [tf.clip_by_value(gradient, -0.05, 0.05) for gradient in gradients]

    def _update(self, strategy: Any, gradients: list[Any], finite: Any, step: Any) -> None:
        import tensorflow as tf

        local = strategy.experimental_local_results
        if self.wrong == "one_replica":
            gradients = [local(gradient)[0] for gradient in gradients]
        elif self.wrong != "not_reduced":
            total = tf.distribute.ReduceOp.SUM
            gradients = [strategy.extended.reduce_to(total, g, v) for g, v in zip(gradients, self.weights, strict=True)]
        if self.extra in ("norm", "value") and not self.wrong.startswith("clip"):
            gradients = self._clipped([local(gradient)[0] for gradient in gradients])
            self.applied = gradients
        if self.extra != "overflow":
            finite = True
        elif self.wrong != "decide_each":
            finite = local(finite)[0] if self.wrong == "decide_first" else all(bool(each) for each in local(finite))
        for variable, gradient, first, second in zip(self.weights, gradients, self.first, self.second, strict=True):
            args = (gradient, first, second, self.optimizer, local(step)[0], finite)
            strategy.extended.update(variable, _apply, args=args)


def accumulating(mistake: str = "", optimizer: str = "sgd") -> Program:
    """Updates of four slices each, reported slice by slice; mistakes: `divided_again`, `not_divided`, `slice_twice`."""
    return _program(_accumulating, mistake, optimizer=optimizer)


def _accumulating(strategy: Any, record: Any, *, mistake: str, optimizer: str) -> None:
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    wrong = mistake if count > 1 else ""
    slices, size, total = 4, 6, tf.distribute.ReduceOp.SUM
    ids, x, y = _data(3 * slices * size)
    dataset = tf.data.Dataset.from_tensor_slices((ids, x, y)).batch(size)
    with strategy.scope():
        w = tf.Variable(tf.reshape(tf.linspace(-1.0, 1.0, 20), (5, 4)), name="w")
        first, second = (tf.Variable(tf.zeros((5, 4)), name=name) for name in ("w/momentum", "w/velocity"))

    def replica_step(ids: Any, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.tanh(x @ w) - y) ** 2) / size
        return loss, tape.gradient(loss, w), ids

    sums: list[Any] = []
    for index, batch in enumerate(strategy.experimental_distribute_dataset(dataset), start=1):
        loss, gradient, seen = strategy.run(replica_step, args=batch)
        sums.append(strategy.reduce(total, gradient, axis=None))
        if index % slices == 0:
            if wrong == "slice_twice":
                sums[1] = sums[0]
            divisor = {"divided_again": slices * count, "not_divided": 1}.get(wrong, slices)
            update = functools.partial(_apply, kind=optimizer, step=float(index // slices))
            for copies in zip(*map(strategy.experimental_local_results, (w, first, second)), strict=True):
                update(copies[0], tf.add_n(sums) / divisor, copies[1], copies[2])
            sums = []
        record.step(loss=loss, gradients=[gradient], variables=[w, first, second], examples=seen)


def within_step(mistake: str = "", optimizer: str = "momentum") -> Program:
    """A step of four slices, reported as one; mistake: `not_divided`."""
    return _program(_within_step, mistake, optimizer=optimizer)


def _within_step(strategy: Any, record: Any, *, mistake: str, optimizer: str) -> None:
    import tensorflow as tf

    wrong = mistake if strategy.num_replicas_in_sync > 1 else ""
    slices, size = 4, 6
    _, x, y = _data(3 * slices * size)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(size))
    with strategy.scope():
        w = tf.Variable(tf.reshape(tf.linspace(-1.0, 1.0, 20), (5, 4)), name="w")
        first, second = (tf.Variable(tf.zeros((5, 4)), name=name) for name in ("w/momentum", "w/velocity"))

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.tanh(x @ w) - y) ** 2) / size
        return loss, tape.gradient(loss, w)

    iterator = iter(dataset)
    for index in range(1, 4):
        found = [strategy.run(replica_step, args=next(iterator)) for _ in range(slices)]
        loss, gradient = (
            tf.add_n([strategy.reduce(tf.distribute.ReduceOp.SUM, one[k], axis=None) for one in found]) / slices
            for k in (0, 1)
        )
        gradient = gradient * slices if wrong == "not_divided" else gradient
        for copies in zip(*map(strategy.experimental_local_results, (w, first, second)), strict=True):
            _apply(copies[0], gradient, copies[1], copies[2], optimizer, float(index))
        record.step(loss=loss, gradients={"w": gradient}, variables=[w, first, second])


def metrics(mistake: str = "") -> Program:
    """Accuracy and a count of examples; mistakes: `one_replica`, `sum_of_copies`, `sum_of_means`, `count_of_one`."""
    return _program(_metrics, mistake)


def _metrics(strategy: Any, record: Any, *, mistake: str) -> None:
    import tensorflow as tf

    wrong = mistake if strategy.num_replicas_in_sync > 1 else ""
    ids, x, y = _data(72)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((ids, x, y)).batch(12))
    total = tf.distribute.ReduceOp.SUM

    def replica_step(ids: Any, x: Any, y: Any) -> Any:
        right = tf.cast(tf.reduce_sum(x, axis=1, keepdims=True) * y > 0, tf.float32)
        return tf.reduce_sum(right), tf.cast(tf.size(ids), tf.float32), tf.reduce_mean(right), ids

    locally = strategy.experimental_local_results
    right = seen = 0.0
    for batch in dataset:
        correct, count, mean, used = strategy.run(replica_step, args=batch)
        whole = [strategy.reduce(total, value, axis=None) for value in (correct, count)]
        some = [locally(correct)[0], locally(count)[0]] if wrong == "one_replica" else whole
        right, seen = right + some[0], seen + some[1]
        examples = locally(count)[0] if wrong == "count_of_one" else whole[1]
        now = mean if wrong == "sum_of_means" else whole[0] / 12
        found = {"now": now, "so_far": right / seen, "examples": tf.cast(examples, tf.int64)}
        record.step(metrics=found, examples=used)
    accuracy = right / seen
    if wrong == "sum_of_copies":
        accuracy = strategy.reduce(total, strategy.run(lambda value: value + 0.0, args=(accuracy,)), axis=None)
    record.final(metrics={"accuracy": accuracy})


def keras_model(kind: str = "norm") -> Program:
    """Keras 3 `fit` of a model with batch normalisation (`norm`), dropout (`dropout`) or a clipping optimizer (`clip`).

    One replica has the global statistics, the whole mask and the whole gradient; several have not, whatever they do.
    """
    return Program.of(functools.partial(_keras_model, kind=kind))


def _keras_model(strategy: Any, record: Any, *, kind: str) -> None:
    import keras

    _, x, y = _data(36)
    keras.utils.set_random_seed(5)
    with strategy.scope():
        layers = {
            "norm": [keras.layers.BatchNormalization(momentum=0.9)],
            "dropout": [keras.layers.Dense(8), keras.layers.Dropout(0.5)],
        }.get(kind, [keras.layers.Dense(8, activation="tanh")])
        model = keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dense(1)])
        clip = {"global_clipnorm": 0.1} if kind == "clip" else {}
        model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.5, **clip), loss="mse", jit_compile=False)
    model.fit(x, y, batch_size=12, epochs=1, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


def masked(mistake: str = "") -> Program:
    """Dropout by a stateless mask that follows the example; mistake: `same_seed`, one mask for all replicas."""
    return _program(_masked, mistake)


def _masked(strategy: Any, record: Any, *, mistake: str) -> None:
    import numpy as np
    import tensorflow as tf

    wrong = mistake if strategy.num_replicas_in_sync > 1 else ""
    random = np.random.default_rng(2)
    x = random.standard_normal((36, 48)).astype(np.float32)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((np.arange(36), x)).batch(6))
    with strategy.scope():
        w = tf.Variable(random.standard_normal((48, 1)).astype(np.float32), name="w")

    def replica_step(step: Any, ids: Any, x: Any) -> Any:
        if wrong == "same_seed":
            mask = tf.random.stateless_uniform(tf.shape(x), seed=(1, step)) < 0.5
        else:
            drawn = [tf.random.stateless_uniform((48,), seed=(int(key), int(step))) for key in ids]
            mask = tf.stack(drawn) < 0.5
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.where(mask, x, 0.0) @ w - 1.0) ** 2) / 6
        return loss, tape.gradient(loss, w), ids

    for index, batch in enumerate(dataset):
        loss, gradient, ids = strategy.run(replica_step, args=(tf.constant(index, tf.int64), *batch))
        everywhere = strategy.reduce(tf.distribute.ReduceOp.SUM, gradient, axis=None)
        for copy in strategy.experimental_local_results(w):
            copy.assign_sub(0.05 * everywhere)
        record.step(loss=loss, gradients={"w": gradient}, variables=[w], examples=ids)


def commuting(mistake: str = "") -> Program:
    """Eight updates of a coordinator that commute; mistakes: the sixth is `lost` (not scheduled) or `repeated`."""
    return _program(_commuting, mistake)


def _commuting(strategy: Any, record: Any, *, mistake: str) -> None:
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable([0.0, 0.0], name="w")
        updates = tf.Variable(0, dtype=tf.int64, name="updates")

    @tf.function
    def update(amount: Any) -> None:
        w.assign_add([amount, 1.0])
        updates.assign_add(1)

    many = isinstance(strategy, tf.distribute.ParameterServerStrategy)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if many else None
    for number in range(8):
        args = (tf.constant(2.0**number),)
        if coordinator is None:
            update(*args)
        else:
            for _ in range({"lost": 0, "repeated": 2}.get(mistake, 1) if number == 5 else 1):
                coordinator.schedule(update, args=args)
        if number % 4 == 3:
            if coordinator is not None:
                coordinator.join()
            record.step(variables=[w, updates])
