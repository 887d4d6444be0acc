"""What TensorFlow documents about restoring: random streams, iterators, partial restores, old checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import StrategyCase

_DRAWS = 3


def _draws(strategy: Any, generator: Any) -> list[list[int]]:
    """The next numbers of every replica of this process."""
    import tensorflow as tf

    def draw() -> Any:
        return generator.uniform_full_int([_DRAWS], tf.int32)

    return [part.numpy().tolist() for part in strategy.experimental_local_results(strategy.run(draw))]


def _generator(case: StrategyCase, seed: int) -> tuple[Any, Any]:
    import tensorflow as tf

    strategy = case.build()
    with strategy.scope():
        generator = tf.random.Generator.from_seed(seed)
    _draws(strategy, generator)
    return strategy, generator


def save_stream(case: StrategyCase, folder: Path) -> list[list[int]]:
    """Save a generator created in the scope, after some draws; return what the replicas draw next."""
    import tensorflow as tf

    strategy, generator = _generator(case, 7)
    chief = not strategy.cluster_resolver or strategy.cluster_resolver.task_id == 0
    tf.train.Checkpoint(generator=generator).write(folder / ("saved" if chief else "not-the-chief"))
    return _draws(strategy, generator)


def load_stream(case: StrategyCase, folder: Path) -> list[list[int]]:
    """Restore it into a generator that has drawn from another seed; return what the replicas draw next."""
    import tensorflow as tf

    strategy, generator = _generator(case, 99)
    tf.train.Checkpoint(generator=generator).read(folder / "saved").assert_consumed()
    return _draws(strategy, generator)


def track_iterator(case: StrategyCase) -> str:
    """Put the iterator of a distributed dataset into a checkpoint; return what is said."""
    import tensorflow as tf

    strategy = case.build()
    dataset = tf.data.Dataset.range(8).batch(4)
    if case.kind == "parameter_server":
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        iterator = iter(coordinator.create_per_worker_dataset(lambda: dataset))
    else:
        iterator = iter(strategy.experimental_distribute_dataset(dataset))
    try:
        tf.train.Checkpoint(iterator=iterator)
    except ValueError as error:
        return str(error)
    return "tracked"


def partial(case: StrategyCase, folder: Path) -> dict[str, Any]:
    """Restore more and less than a checkpoint holds: which values are there, and which of the checks raise."""
    import tensorflow as tf

    def said(check: Any) -> str:
        try:
            check()
        except AssertionError as error:
            return str(error)
        return ""

    with case.build().scope():
        kept, lost, more = (tf.Variable([value] * 3) for value in (1.0, 2.0, 3.0))
        path = tf.train.Checkpoint(kept=kept, lost=lost).write(folder / "both")
        kept.assign([-7.0] * 3)
        less = tf.train.Checkpoint(kept=kept).read(path)
        found = {"kept": kept.numpy().tolist()}
        found["less consumed"] = said(less.assert_consumed)
        found["less matched"] = said(less.assert_existing_objects_matched)
        less.expect_partial()
        wider = tf.train.Checkpoint(kept=kept, lost=lost, more=more).read(path)
        found["more consumed"] = said(wider.assert_consumed)
        found["more matched"] = said(wider.assert_existing_objects_matched)
        found["more"] = more.numpy().tolist()
        renamed = tf.train.Checkpoint(weights=kept).read(path)
        found["renamed matched"] = said(renamed.assert_existing_objects_matched)
        found["renamed nontrivial"] = said(renamed.assert_nontrivial_match)
    return found


def deferred(case: StrategyCase, folder: Path) -> list[float]:
    """Restore before the variables exist; each one takes its value when it is created, in the scope."""
    import tensorflow as tf

    path = tf.train.Checkpoint(part=tf.train.Checkpoint(weights=tf.Variable([1.0, 2.0]))).write(folder / "deferred")
    part = tf.train.Checkpoint()
    status = tf.train.Checkpoint(part=part).read(path)
    strategy = case.build()
    with strategy.scope():
        part.weights = tf.Variable([-7.0, -7.0])
    status.assert_consumed()
    return [float(v) for copy in strategy.experimental_local_results(part.weights) for v in copy.numpy()]


def kept_files(case: StrategyCase, folder: Path, hours: float | None) -> tuple[list[str], dict[str, float]]:
    """Save five times with `max_to_keep=2`, start again after the third; what is kept, and what is restored from it."""
    import tensorflow as tf

    with case.build().scope():
        value = tf.Variable(0.0)
    checkpoint = tf.train.Checkpoint(value=value)

    def manager() -> Any:
        return tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2, keep_checkpoint_every_n_hours=hours)

    current = manager()
    for number in range(1, 6):
        if number == 4:
            current = manager()
        value.assign(float(number))
        current.save()
    restored = {}
    names = sorted(path.stem for path in folder.glob("*.index"))
    for name in names:
        value.assign(-7.0)
        checkpoint.restore(folder / name).assert_consumed()
        restored[name] = float(value.numpy())
    return [Path(path).name for path in current.checkpoints], restored


def written_asynchronously(case: StrategyCase, folder: Path) -> None:
    """Read what `Checkpoint.write` has written asynchronously, all of it."""
    import tensorflow as tf

    with case.build().scope():
        value = tf.Variable(3.0)
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    checkpoint = tf.train.Checkpoint(value=value)
    checkpoint.write(folder / "written", options=options)
    checkpoint.sync()
    value.assign(-7.0)
    status = tf.train.Checkpoint(value=value).read(folder / "written")
    if float(value.numpy()) != 3.0:
        raise ValueError(f"restored {value.numpy()}, not 3.0")
    status.assert_consumed()
