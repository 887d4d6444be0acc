"""A training that saves everything it has, and restores it over garbage when it is started again; all numbers exact."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from scenarios.programs import models
from scenarios.programs.checkpointing import bits

Flavour = Literal["plain", "tf_keras", "keras"]
Mistake = Literal["", "no_optimizer", "other_names", "save_before_update"]
STEPS = 6
_BATCH, _FEATURES, _CLASSES = 48, 8, 4
_DIVISOR = 64.0


def make(
    flavour: Flavour,
    mistake: Mistake = "",
    *,
    scaled: bool = False,
    metrics: bool = True,
    counted: Literal["float32", "int64"] = "float32",
    dropout: bool = False,
) -> Callable[[Any, Any], None]:
    """Six steps of momentum on a hinge loss, saved by a `tf.train.CheckpointManager` after every second step.

    In the checkpoint are the variables, the optimizer's slots and counter, the position of the input, the state of a
    `tf.random.Generator`, with `metrics` a running mean (plain: an on-read variable that counts examples) and with
    `scaled` a loss scale that doubles at every second step. Beside each checkpoint lies a copy of all its values. When
    the program is started again it assigns garbage to everything it has built, restores, and reports with every step
    how many elements have other bits than in that copy: 0 in the reference, which never restores.

    `plain` needs no Keras and saves the iterator of a `tf.data.Dataset`; the others save the number of steps and skip
    them in the distributed dataset.

    Why it is exact: features are integers from -2 to 2, the gradient of a hinge loss sums them up, the divisor is 64
    and momentum and steps are powers of two, so that every value is a multiple of 2**-13 below 2**10. What is summed
    over replicas when it is saved is a multiple of 48 or of 3, which 1, 2, 3 and 4 replicas divide.

    With a mistake memory is left as it was built, as in a program that anyone would write. `no_optimizer` leaves the
    optimizer out of the checkpoint, `other_names` restores into a model of another name behind `expect_partial`, and
    `save_before_update` saves before the update that the saved number of steps counts already.

    `counted` as `int64` makes the on-read variable of `plain` an integer, which counts an odd number of examples. With
    `dropout` a Keras model drops inputs, by masks of a stream of its own; that is exact for one replica only.
    """
    options: dict[str, Any] = {"counted": counted}
    if flavour != "plain":
        options = {"flavour": flavour, "scaled": scaled, "metrics": metrics, "dropout": dropout}
    return functools.partial(_train, flavour=flavour, mistake=mistake, options=options)


def _train(strategy: Any, record: Any, *, flavour: Flavour, mistake: Mistake, options: dict[str, Any]) -> None:
    import tensorflow as tf

    with strategy.scope():
        parts = _plain(**options) if flavour == "plain" else _keras(**options)
    # Outside of the scope: a stream of the whole training, not one of each replica.
    parts.tracked |= {"generator": tf.random.Generator.from_seed(11), "done": tf.Variable(0, dtype=tf.int64)}
    feed = iter(_dataset()) if flavour == "plain" else None
    differing, keeper = _restore(strategy, record.directory, parts.tracked, feed, mistake)
    step = _step(strategy, parts, whole=flavour == "plain")
    for batch in _batches(strategy, feed, int(parts.tracked["done"])):
        draw = int(parts.tracked["generator"].uniform([], 0, 2**20, tf.int32))
        parts.tracked["done"].assign_add(1)
        if mistake == "save_before_update":
            keeper(int(parts.tracked["done"]))
        loss, ids = step(batch)
        record.step(
            loss=loss,
            variables=parts.reported(),
            examples=ids,
            metrics={"draw": draw, **parts.metrics(), **{f"restored {name}": n for name, n in differing.items()}},
        )
        if mistake != "save_before_update":
            keeper(int(parts.tracked["done"]))
    record.final(variables=parts.reported())


# -- Saving and restoring


def _restore(
    strategy: Any, folder: Path, tracked: dict[str, Any], feed: Any, mistake: Mistake
) -> tuple[dict[str, float], Callable[[int], None]]:
    """Restore the latest checkpoint, if there is one: how many elements differ from it, and how to save the next."""
    import tensorflow as tf

    latest = tf.train.latest_checkpoint(folder / "saved")
    named = dict(tracked)
    if mistake == "no_optimizer":
        del named["optimizer"]
    if mistake == "other_names" and latest is not None:
        named["net"] = named.pop("model")
    if feed is not None:
        named["feed"] = feed
    checkpoint = tf.train.Checkpoint(**named)
    everything = tf.train.Checkpoint(**tracked)
    differing = dict.fromkeys(bits.variables_of(everything), 0.0)
    if latest is not None:
        if not mistake:
            bits.clobber(bits.variables_of(everything))
        status = checkpoint.restore(latest)
        if mistake == "other_names":
            status.expect_partial()
        else:
            status.assert_consumed()
        differing |= bits.differing(Path(f"{latest}.npz"), bits.read(strategy, bits.variables_of(everything)))
    chief = _is_chief(strategy)
    manager = tf.train.CheckpointManager(checkpoint, folder / ("saved" if chief else "not-the-chief"), max_to_keep=2)

    def keep(done: int) -> None:
        if done % 2 == 0:
            values = bits.read(strategy, bits.variables_of(everything))
            if chief:  # the values first: a checkpoint that is complete has them
                bits.write(folder / "saved" / f"ckpt-{done}.npz", values)
            manager.save(checkpoint_number=done)

    (folder / "saved").mkdir(exist_ok=True)
    return differing, keep


def _is_chief(strategy: Any) -> bool:
    resolver = strategy.cluster_resolver
    return resolver is None or resolver.task_type != "worker" or resolver.task_id == 0


# -- Data and steps


def _dataset() -> Any:
    import numpy as np
    import tensorflow as tf

    rng, count = np.random.default_rng(3), STEPS * _BATCH
    x = rng.integers(-2, 3, (count, _FEATURES)).astype(np.float32)
    targets = rng.choice([-1.0, 1.0], (count, _CLASSES)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((np.arange(count), x, targets)).batch(_BATCH)


def _by_coordinator(strategy: Any) -> bool:
    import tensorflow as tf

    return isinstance(strategy, tf.distribute.ParameterServerStrategy)


def _batches(strategy: Any, feed: Any, done: int) -> Iterator[Any]:
    """Global batches from the iterator that was restored, or those of a dataset that come after `done` steps."""
    if feed is not None:
        return iter(feed)
    rest = _dataset().skip(done)
    return iter(rest if _by_coordinator(strategy) else strategy.experimental_distribute_dataset(rest))


def _step(strategy: Any, parts: SimpleNamespace, *, whole: bool) -> Callable[[Any], Any]:
    """From a batch: the loss and the ids. With `whole` each replica is given all of it and takes its own share."""
    import tensorflow as tf

    def replica_step(ids: Any, x: Any, targets: Any) -> Any:
        if whole and not _by_coordinator(strategy):
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            mine = tf.range(_BATCH) % strategy.num_replicas_in_sync == replica
            ids, x, targets = (tf.boolean_mask(part, mine) for part in (ids, x, targets))
        return (*parts.replica_step(x, targets), ids)

    @tf.function(reduce_retracing=True)
    def run(batch: Any) -> Any:
        losses, gradients, ids = strategy.run(replica_step, args=batch)
        total = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)
        return total(losses), [total(gradient) for gradient in gradients], ids

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy) if _by_coordinator(strategy) else None

    def step(batch: Any) -> Any:
        if coordinator is None:
            loss, gradients, ids = run(batch)
        else:
            loss, gradients, ids = coordinator.fetch(coordinator.schedule(run, args=(batch,)))
        parts.update(gradients)
        return loss, ids

    return step


def _hinge(scores: Any, targets: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.nn.relu(2.0 - targets * scores), axis=1)


# -- What is trained


def _plain(*, counted: str) -> SimpleNamespace:
    """Variables and momentum by hand; the update is done by the client, on all replicas' copies at once."""
    import tensorflow as tf

    shapes = {"weights": (_FEATURES, _CLASSES), "bias": (_CLASSES,)}
    weights = {name: tf.Variable(tf.zeros(shape), name=name) for name, shape in shapes.items()}
    slots = {name: tf.Variable(tf.zeros(shape), name=f"{name}/momentum") for name, shape in shapes.items()}
    iterations = tf.Variable(0, dtype=tf.int64, name="iterations")
    on_read = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
    seen = tf.Variable(tf.zeros([], counted), trainable=False, name="seen", **on_read)

    def replica_step(x: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            kernel, bias = (tf.convert_to_tensor(weight) for weight in weights.values())
            tape.watch([kernel, bias])
            loss = tf.reduce_sum(_hinge(x @ kernel + bias, targets)) / _DIVISOR
        # As an integer: the examples whose fourth feature is 2, which are an odd number when step 4 is saved.
        shown = x if counted == "float32" else tf.boolean_mask(x, x[:, 3] > 1)
        seen.assign_add(tf.cast(tf.shape(shown)[0], counted))
        return loss, tape.gradient(loss, [kernel, bias])

    def update(gradients: Any) -> None:
        iterations.assign_add(1)
        for name, gradient in zip(shapes, gradients, strict=True):
            slot = 0.5 * tf.convert_to_tensor(slots[name]) - 0.5 * gradient
            slots[name].assign(slot)
            weights[name].assign(tf.convert_to_tensor(weights[name]) + slot)

    tracked = {"model": weights, "optimizer": {"slots": slots, "iterations": iterations}, "seen": seen}
    reported = {**weights, **{f"{name}/momentum": slot for name, slot in slots.items()}, "iterations": iterations}
    return SimpleNamespace(
        tracked=tracked,
        replica_step=replica_step,
        update=update,
        reported=lambda: {**reported, "seen": seen},
        metrics=dict,
    )


def _keras(*, flavour: Any, scaled: bool, metrics: bool, dropout: bool) -> SimpleNamespace:
    """A dense layer and SGD with momentum of Keras; the replicas' own update is aggregated by the optimizer."""
    import tensorflow as tf

    keras = models.keras_module(flavour)
    stack = [keras.layers.Dropout(0.5, seed=5)] if dropout else []
    stack.append(keras.layers.Dense(_CLASSES, kernel_initializer="zeros"))
    model = keras.Sequential([keras.Input((_FEATURES,)), *stack])
    optimizer = keras.optimizers.SGD(0.5, momentum=0.5)
    if scaled:
        kind = getattr(keras.optimizers, "LossScaleOptimizer", None) or keras.mixed_precision.LossScaleOptimizer
        optimizer = kind(optimizer, initial_scale=4.0, dynamic_growth_steps=2)
    optimizer.build(model.trainable_variables)
    mean = keras.metrics.Mean(name="mean") if metrics else None

    def replica_step(x: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = _hinge(model(x, training=True), targets)
            loss = tf.reduce_sum(losses) / _DIVISOR
            scale = getattr(optimizer, "get_scaled_loss", None) or getattr(optimizer, "scale_loss", tf.identity)
            target = scale(loss) if scaled else loss
        gradients = tape.gradient(target, model.trainable_variables)
        if hasattr(optimizer, "get_unscaled_gradients"):
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        if mean is not None:
            mean.update_state(3 * losses)
        return loss, []

    tracked = {"model": model, "optimizer": optimizer}
    return SimpleNamespace(
        # A metric of Keras 3 is nothing that a checkpoint can track; its variables are.
        tracked=tracked if mean is None else {**tracked, "mean": mean.variables},
        replica_step=replica_step,
        update=lambda _: None,
        reported=lambda: models.variables_of(model, optimizer),
        metrics=lambda: {} if mean is None else {"mean": mean.result()},
    )
