"""A synchronous training that saves checkpoints, resumes from them, and writes down every step that it does."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from harness import StrategyCase
from scenarios.programs.faulted.numbers import LEARNING_RATE, MOMENTUM, START, STEPS, features, targets

SAVE_EVERY = 4
# Seconds for a collective. Less would not be enough for two tasks that trace their first step on a busy machine.
LIMIT = 3.0
CHECKPOINTS = "checkpoints"
NOTES = "notes"
# The mistakes that can be planted.
MISTAKES = ("never_restores", "momentum_not_saved", "saves_in_place")


def train(
    case: StrategyCase,
    folder: Path,
    *,
    limit: float | None = LIMIT,
    guarded: bool = False,
    ballast: int = 0,
    mistake: str | None = None,
) -> int:
    """Train up to the last step, from the latest checkpoint if there is one.

    Each task appends to `folder/notes/TASK.jsonl` where it began and, for each step, the loss, the variables, and when
    it began and ended. SIGTERM is taken as the notice of a preemption: all tasks save after the step in which any of
    them has heard of it, and leave.

    Args:
        case: a strategy with one replica in each task.
        folder: shared by all tasks and incarnations.
        limit: seconds after which a collective gives up (`CommunicationOptions.timeout_seconds`); None for no limit, so
            that only heartbeats tell that a task is silent.
        guarded: go back to an older checkpoint if the latest cannot be restored, instead of failing.
        ballast: bytes by which the checkpoint is larger than it would have to be.
        mistake: one of `MISTAKES`.

    Returns:
        The number of the last step.
    """
    from simulator.agent import current

    strategy = case.build()
    rank = strategy.cluster_resolver.task_id
    variables = _variables(strategy)
    told = _notices()
    note = _notes(folder)
    saver = (_InPlace if mistake == "saves_in_place" else _Manager)(_saved(variables, ballast, mistake), folder, rank)
    if mistake != "never_restores":
        saver.restore(guarded=guarded)
    done = variables["done"]
    note(began_after=int(done.numpy()))
    step = _step(strategy, variables["weights"], variables["velocity"], limit)
    for number in range(int(done.numpy()) + 1, STEPS + 1):
        began = time.monotonic()
        loss, leaving = step(*_batch(number, rank, case.workers, leaving=bool(told)))
        done.assign_add(1)
        values = {name: _listed(variables[name]) for name in ("weights", "velocity")}
        note(step=number, loss=float(loss), began=began, ended=time.monotonic(), **values)
        if number % SAVE_EVERY == 0 or leaving:
            saver.save(number)
        task = current()
        assert task is not None
        task.step(number)
        if leaving:
            raise SystemExit("preempted, and saved")
    return int(done.numpy())


def _variables(strategy: Any) -> dict[str, Any]:
    import tensorflow as tf

    with strategy.scope():
        weights = tf.Variable(START, dtype=tf.float64, name="weights")
        velocity = tf.Variable([0] * len(START), dtype=tf.float64, name="velocity")
    return {"weights": weights, "velocity": velocity, "done": tf.Variable(0, dtype=tf.int64, name="done")}


def _saved(variables: dict[str, Any], ballast: int, mistake: str | None) -> dict[str, Any]:
    """What belongs into a checkpoint."""
    import tensorflow as tf

    left_out = "velocity" if mistake == "momentum_not_saved" else ""
    state = {name: variable for name, variable in variables.items() if name != left_out}
    if ballast:
        state["ballast"] = tf.Variable(tf.zeros([ballast], tf.uint8))
    return state


def _batch(number: int, rank: int, workers: int, *, leaving: bool) -> tuple[Any, Any, Any]:
    """This worker's part of the global batch, and one if it has been told to leave."""
    import tensorflow as tf

    rows, wanted = features(number)[rank::workers], targets(number)[rank::workers]
    return tf.constant(rows, tf.float64), tf.constant(wanted, tf.float64), tf.constant(float(leaving), tf.float64)


def _step(strategy: Any, weights: Any, velocity: Any, limit: float | None) -> Callable[..., tuple[Any, Any]]:
    import tensorflow as tf

    options = tf.distribute.experimental.CommunicationOptions(timeout_seconds=limit)
    momentum, learning_rate = float(MOMENTUM), float(LEARNING_RATE)

    def gradients(rows: Any, wanted: Any, leaving: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(rows, weights) - wanted) ** 2) / 2
        gradient = tape.gradient(loss, weights)
        summands = [gradient, loss, tf.identity(leaving)]
        return tf.distribute.get_replica_context().all_reduce("SUM", summands, options)

    def descend(variable: Any, gradient: Any) -> None:
        variable.assign(momentum * variable + gradient)

    def move(variable: Any, direction: Any) -> None:
        variable.assign_sub(learning_rate * direction)

    @tf.function
    def step(rows: Any, wanted: Any, leaving: Any) -> tuple[Any, Any]:
        gradient, loss, leavers = strategy.run(gradients, args=(rows, wanted, leaving))
        strategy.extended.update(velocity, descend, args=(gradient,))
        strategy.extended.update(weights, move, args=(velocity,))
        local = strategy.experimental_local_results
        return local(loss)[0], local(leavers)[0] > 0

    return cast("Callable[..., tuple[Any, Any]]", step)


class _Manager:
    """As in the tutorial: the chief's checkpoints count, every other task saves into a folder of its own."""

    def __init__(self, state: dict[str, Any], folder: Path, rank: int) -> None:
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint(**state)
        self._folder = folder / CHECKPOINTS
        own = self._folder if rank == 0 else folder / f"not-the-chief-{rank}"
        self._manager = tf.train.CheckpointManager(self._checkpoint, str(own), max_to_keep=3)

    def save(self, number: int) -> None:
        self._manager.save(checkpoint_number=number)

    def restore(self, *, guarded: bool) -> None:
        import tensorflow as tf

        if guarded:
            _restore_newest_good(self._checkpoint, self._folder)
        elif latest := tf.train.latest_checkpoint(str(self._folder)):
            self._checkpoint.restore(latest).assert_consumed()


def _restore_newest_good(checkpoint: Any, folder: Path) -> None:
    """Go through the prefixes of the files that are there, the newest first.

    Raises:
        RuntimeError: there are files, and none of them can be restored.
    """
    import tensorflow as tf

    prefixes = {path.name.partition(".")[0] for path in folder.glob("ckpt-*.*")}
    for prefix in sorted(prefixes, key=lambda name: int(name.removeprefix("ckpt-")), reverse=True):
        try:
            checkpoint.restore(str(folder / prefix)).assert_consumed()
        except (tf.errors.OpError, AssertionError, IndexError, ValueError):
            continue
        return
    if prefixes:
        raise RuntimeError(f"{folder} holds {', '.join(sorted(prefixes))}, and none of them can be restored")


class _InPlace:
    """A mistake: one file that is written over in each save, in two writes, and never renamed."""

    def __init__(self, state: dict[str, Any], folder: Path, rank: int) -> None:
        self._state = state
        self._file = folder / "state.txt"
        self._rank = rank
        self._saves = 0

    def save(self, number: int) -> None:
        from simulator.agent import current

        del number
        self._saves += 1
        if self._rank:
            return
        text = "\n".join(value.hex() for name in sorted(self._state) for value in _listed(self._state[name]))
        task = current()
        assert task is not None
        with self._file.open("w") as file:
            file.write(text[: len(text) // 2])
            file.flush()
            task.gate(f"phase:in_save:{self._saves}")
            file.write(text[len(text) // 2 :])

    def restore(self, *, guarded: bool) -> None:
        del guarded
        if not self._file.exists():
            return
        values = iter([float.fromhex(line) for line in self._file.read_text().splitlines()])
        for name in sorted(self._state):
            variable = self._state[name]
            # What is missing at the end stays as it is: such a reader does not even notice.
            found = [next(values, old) for old in _listed(variable)]
            variable.assign(found if variable.shape.rank else int(found[0]))


def _listed(variable: Any) -> list[float]:
    import numpy as np

    # The copy of this task.
    local = getattr(variable, "values", (variable,))[0]
    return [float(value) for value in np.ravel(local.numpy())]


def _notices() -> list[int]:
    """A list that has something in it as soon as SIGTERM was received."""
    received: list[int] = []
    # TensorFlow has caught it for its coordination service when the strategy was made, and does nothing with it here.
    signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    return received


def _notes(folder: Path) -> Callable[..., None]:
    from simulator.agent import current

    task = current()
    assert task is not None
    (folder / NOTES).mkdir(exist_ok=True)
    path = folder / NOTES / f"{task.spec.task.replace(':', '-')}.jsonl"

    def note(**said: Any) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"incarnation": task.spec.incarnation, **said}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    return note


def read_notes(folder: Path, task: str) -> Iterator[dict[str, Any]]:
    """What a task has noted, in all its incarnations; a last line cut off by its death is left out."""
    path = folder / NOTES / f"{task.replace(':', '-')}.jsonl"
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue
