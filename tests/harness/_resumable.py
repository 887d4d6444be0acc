"""Real programs that save and resume, in plain TensorFlow and in both Kerases, with a switch per mistake.

They import TensorFlow when they are called, which happens in tasks only. The mistakes are made by a resumed process
only, so the reference is free of them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.subject.program import Program
from tests.harness._sharing import sharing

STEPS = 8
_BATCH = 12


def _program(train: Callable[..., Any], usual: dict[str, Any], **options: Any) -> Program:
    """The program with these options; it shares the reference of the one with the usual ones.

    Without an interruption their numbers are the same: it matters neither how often one saves nor how one resumes.
    """
    return sharing(functools.partial(train, **options), functools.partial(train, **{**options, **usual}))


def training(
    mistake: str = "", optimizer: str = "momentum", every: int = 2, slots: bool = True, ids: bool = True
) -> Program:
    """A regression in plain variables, saved every second step by `tf.train.Checkpoint` with its input's position.

    Mistakes: `scratch` (looks for checkpoints where there are none), `older` (restores the newest but one), `slots` and
    `counter` (not in the checkpoint),
    `data` (the input's position is not), `loop` (all steps are done again on what was restored), `ends_early`,
    `silent`. `every` 0 never saves; without `slots` and `ids` these are not reported.
    """
    options = {"optimizer": optimizer, "report_slots": slots, "report_ids": ids}
    return _program(_training, {"mistake": "", "every": 2}, mistake=mistake, every=every, **options)


def _training(
    strategy: Any, record: Any, *, mistake: str, optimizer: str, every: int, report_slots: bool, report_ids: bool
) -> None:
    import tensorflow as tf

    with strategy.scope():
        state = _state(optimizer)
    weights, slots, step = state["weights"], state["slots"], state["step"]
    batches = iter(_dataset())
    saved = {"weights": weights, "slots": slots, "step": step, "iterator": batches, "done": tf.Variable(0)}
    for name, key in (("slots", "slots"), ("counter", "step"), ("data", "iterator")):
        if mistake == name:
            del saved[key]
    checkpoint = tf.train.Checkpoint(**saved)
    folder = record.directory / "checkpoints"
    manager = tf.train.CheckpointManager(checkpoint, str(_own(folder)), max_to_keep=2)
    latest = tf.train.latest_checkpoint(str(folder / "elsewhere" if mistake == "scratch" else folder))
    if latest is not None:
        checkpoint.restore(manager.checkpoints[-2] if mistake == "older" else latest)
    done = 0 if latest is None else int(checkpoint.done.numpy())
    gradients_of = _gradients_of(strategy, weights)
    for number in range(0 if mistake == "loop" else done, STEPS - (mistake == "ends_early" and done > 0) * 2):
        if mistake == "loop" and done and number == 0:
            batches = iter(_dataset())
        ids, loss, gradients = gradients_of(next(batches))
        _update(optimizer, weights, slots, step, gradients)
        if mistake != "silent" or not done:
            shown = [*weights, *slots, step] if report_slots else weights
            record.step(loss=loss, variables=shown, examples=ids if report_ids else None)
        checkpoint.done.assign(number + 1)
        if every and (number + 1) % every == 0:
            manager.save()
    record.final(variables=weights)


def _own(folder: Path) -> Path:
    """Every worker saves, as synchronised variables need, but only the chief where it counts."""
    task = os.environ["LOCKSTEP_TASK"]
    return folder if task in ("worker:0", "chief:0", "local:0") else folder.parent / f"unused-{task[-1]}"


def _dataset() -> Any:
    import numpy as np
    import tensorflow as tf

    count = _BATCH * STEPS
    x = np.random.default_rng(3).standard_normal((count, 5)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True)) + 1
    return tf.data.Dataset.from_tensor_slices((np.arange(count), x, y.astype(np.float32))).batch(_BATCH)


def _state(optimizer: str) -> dict[str, Any]:
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(5)
    shapes = {"hidden": (5, 6), "bias": (6,), "out": (6, 1)}
    weights = [
        tf.Variable(random.standard_normal(shape).astype(np.float32) / 2, name=name) for name, shape in shapes.items()
    ]
    kinds = ["m", "v"] if optimizer == "adam" else ["momentum"]
    slots = [tf.Variable(tf.zeros(shape), name=f"{name}/{kind}") for kind in kinds for name, shape in shapes.items()]
    return {"weights": weights, "slots": slots, "step": tf.Variable(0, dtype=tf.int64, name="iteration")}


def _gradients_of(strategy: Any, weights: list[Any]) -> Callable[[Any], Any]:
    """From a global batch, of which each replica takes its share: (ids, loss, gradients)."""
    import tensorflow as tf

    count = strategy.num_replicas_in_sync

    def replica_step(ids: Any, x: Any, y: Any) -> Any:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        mine = tf.range(_BATCH) % count == replica
        ids, x, y = (tf.boolean_mask(part, mine) for part in (ids, x, y))
        with tf.GradientTape() as tape:
            error = tf.tanh(x @ weights[0] + weights[1]) @ weights[2] - y
            loss = tf.reduce_sum(error**2) / _BATCH
        return ids, loss, tape.gradient(loss, weights)

    @tf.function
    def step(batch: Any) -> Any:
        ids, losses, gradients = strategy.run(replica_step, args=batch)
        loss, *summed = [strategy.reduce(tf.distribute.ReduceOp.SUM, part, axis=None) for part in (losses, *gradients)]
        return ids, loss, summed

    if not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        local: Callable[[Any], Any] = step
        return local
    count = 1  # one worker takes the whole batch
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    return lambda batch: coordinator.schedule(step, args=(batch,)).fetch()


def _update(optimizer: str, weights: list[Any], slots: list[Any], step: Any, gradients: Any) -> None:
    step.assign_add(1)
    for number, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
        first = slots[number]
        if optimizer == "momentum":
            first.assign(0.9 * first - 0.05 * gradient)
            weight.assign_add(first)
            continue
        second, time = slots[len(weights) + number], float(step.numpy())
        first.assign(0.9 * first + 0.1 * gradient)
        second.assign(0.99 * second + 0.01 * gradient**2)
        weight.assign_sub(0.01 * first / (1 - 0.9**time) / ((second / (1 - 0.99**time)) ** 0.5 + 1e-7))


def looping(flavour: str, mistake: str = "", optimizer: str = "Adam") -> Program:
    """A custom loop over a Keras model; mistake: `slots` (the optimizer is not saved)."""
    return _program(_looping, {"mistake": ""}, mistake=mistake, flavour=flavour, optimizer=optimizer)


def _looping(strategy: Any, record: Any, *, flavour: str, mistake: str, optimizer: str) -> None:
    import importlib

    import tensorflow as tf

    keras = importlib.import_module(flavour)
    with strategy.scope():
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        rule = getattr(keras.optimizers, optimizer)(0.01, **options)
        rule.build(model.trainable_variables)
        slots = rule.variables() if callable(rule.variables) else rule.variables
    weights = model.trainable_variables
    step = tf.Variable(0)
    kept = {"model": model, "step": step} if mistake == "slots" else {"model": model, "optimizer": rule, "step": step}
    checkpoint = tf.train.Checkpoint(**kept)
    latest = tf.train.latest_checkpoint(str(record.directory))
    if latest is not None:
        checkpoint.restore(latest).assert_consumed()

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x, training=True) - y) ** 2) / _BATCH
        rule.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    run = tf.function(lambda batch: strategy.run(replica_step, args=batch))
    data = _dataset().skip(int(step.numpy())).map(lambda _, x, y: (x, y))
    for batch in strategy.experimental_distribute_dataset(data):
        loss = strategy.reduce(tf.distribute.ReduceOp.SUM, run(batch), axis=None)
        record.step(loss=loss, variables=[*model.variables, *slots])
        step.assign_add(1)
        checkpoint.save(str(record.directory / "saved"))


def fitting(flavour: str, mistake: str = "", save_freq: str | int = "epoch") -> Program:
    """`fit` for three epochs of four batches, with BackupAndRestore.

    Mistakes: `scratch` (a backup directory of each process), `weights` (only the weights are kept, by hand).
    """
    usual = {"mistake": "", "save_freq": "epoch"}
    return _program(_fitting, usual, mistake=mistake, flavour=flavour, save_freq=save_freq)


def _fitting(strategy: Any, record: Any, *, flavour: str, mistake: str, save_freq: str | int) -> None:
    import importlib

    import numpy as np
    import tensorflow as tf

    keras = importlib.import_module(flavour)
    random = np.random.default_rng(4)
    x = random.standard_normal((4 * _BATCH, 5)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((x, np.tanh(x.sum(axis=1, keepdims=True))))
    data = data.batch(_BATCH).repeat()
    with strategy.scope():
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.01), "mse")
        # Built by fit or by BackupAndRestore, tf_keras gives the slots different names.
        model.optimizer.build(model.trainable_variables)
    first, callbacks = 0, []
    if mistake == "weights":
        first, keeper = _kept_by_hand(keras, model, record.directory)
        callbacks.append(keeper)
    else:
        folder = record.directory / (f"backup-{os.getpid()}" if mistake == "scratch" else "backup")
        callbacks.append(keras.callbacks.BackupAndRestore(str(folder), save_freq=save_freq))
    callbacks.append(record.keras_callback(model))
    model.fit(data, epochs=3, steps_per_epoch=4, initial_epoch=first, callbacks=callbacks, verbose=0, shuffle=False)


def _kept_by_hand(keras: Any, model: Any, folder: Path) -> tuple[int, Any]:
    """The epoch to begin with after restoring what is there, and a callback that keeps the weights of every epoch."""
    import numpy as np

    files = sorted(folder.glob("weights-*.npz"))
    if files:
        with np.load(files[-1]) as weights:
            model.set_weights([weights[name] for name in weights.files])

    class Keeper(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            np.savez(folder / f"weights-{epoch}.npz", *self.model.get_weights())

    return len(files), Keeper()
