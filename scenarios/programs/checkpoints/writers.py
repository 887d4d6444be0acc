"""Who writes a checkpoint: the chief, every worker to its own folder, or, by mistake, every worker to the same path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scenarios.programs.checkpoints import filecalls
from simulator.agent import current

# A worker creates this file in the checkpoint's directory when its save has returned.
DONE = "worker-{}-done"
_ROWS = 5


def _value(step: int, worker: int = 0) -> Any:
    import numpy as np

    return (np.arange(60, dtype=np.float32) + 100 * step + 10_000 * worker).reshape(12, _ROWS)


def save_worker(root: Path, watched: Path, addresses: dict[str, Path], *, own: bool, differ: bool) -> list[str]:
    """Each worker saves steps 1 and 2 under MultiWorkerMirroredStrategy; the second save's file calls are held.

    Args:
        root: where the chief saves.
        watched: the directory whose file calls the parent sees; `root`, or one above it.
        addresses: for each task the socket of its `filecalls.held`.
        own: workers other than the chief save into a folder of their own and delete it, as the tutorial "Multi-worker
            training with a custom loop" does; otherwise everyone saves into `root`.
        differ: give a variable that is not synchronized another value on each worker, such as a local counter.
    """
    import shutil

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    rank = strategy.cluster_resolver.task_id
    with strategy.scope():
        weights = tf.Variable(_value(0))
    local = tf.Variable(_value(0))
    checkpoint = tf.train.Checkpoint(weights=weights, local=local)
    mine = root if rank == 0 or not own else watched / f"temporary-{rank}"
    # The mistake needs no race in the first save, whose order is fixed by the barrier below.
    for step in (1, 2):
        weights.assign(_value(step))
        local.assign(_value(step, rank if differ else 0))
        if step == 1 and rank == 0:
            checkpoint.write(mine / "ckpt-1")
        _barrier(strategy)
        if step == 2:
            filecalls.hold_me(addresses[f"worker:{rank}"])
            checkpoint.write(mine / "ckpt-2")
    (watched / DONE.format(rank)).touch()
    if mine != root:
        shutil.rmtree(mine)
    return sorted(path.name for path in root.iterdir())


def _barrier(strategy: Any) -> None:
    import tensorflow as tf

    @tf.function
    def reduce() -> Any:
        return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("SUM", tf.constant(1.0)))

    assert float(strategy.experimental_local_results(reduce())[0]) == strategy.num_replicas_in_sync


def restore_worker(root: Path) -> str:
    """Each worker of a new cluster restores the newest checkpoint that has an index: `step N`, or the error's class."""
    import numpy as np
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(_value(9))
    local = tf.Variable(_value(9))
    prefixes = sorted(path.with_suffix("") for path in root.glob("ckpt-*.index"))
    try:
        tf.train.Checkpoint(weights=weights, local=local).read(prefixes[-1]).assert_consumed()
    except tf.errors.OpError as error:
        return type(error).__name__
    found = [step for step in (1, 2, 9) if np.array_equal(weights.numpy(), _value(step))]
    return f"step {found[0]}" if found and np.array_equal(local.numpy() % 10_000, _value(found[0])) else "garbage"


def _sharded(root: Path, step: int) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(num_shards=2)
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    with strategy.scope():
        weights = tf.Variable(_value(step))
    checkpoint = tf.train.Checkpoint(weights=weights)
    return weights, checkpoint, tf.train.CheckpointManager(checkpoint, root, max_to_keep=1)


def save_sharded(root: Path, address: Path | None = None) -> list[str]:
    """The chief saves variables that lie on two parameter servers; return what the second and third save said.

    Before the second one it stands at gate `save`, before the third at gate `again`.
    """
    import tensorflow as tf

    agent = current()
    assert agent is not None
    weights, _, manager = _sharded(root, 1)
    manager.save(checkpoint_number=1)
    said = []
    for gate in ("save", "again"):
        agent.gate(gate)
        if address is not None and gate == "save":
            filecalls.hold_me(address)
        try:
            weights.assign(_value(2))
            manager.save(checkpoint_number=2)
            said.append("saved")
        except tf.errors.OpError as error:
            said.append(type(error).__name__)
    return said


def restore_sharded(root: Path) -> str:
    """The chief of a new cluster restores the latest checkpoint: `step N` or `garbage`."""
    import numpy as np
    import tensorflow as tf

    weights, checkpoint, _ = _sharded(root, 9)
    checkpoint.restore(tf.train.latest_checkpoint(root)).assert_consumed()
    value = np.concatenate([shard.numpy() for shard in weights.variables])
    return next((f"step {step}" for step in (1, 2, 9) if np.array_equal(value, _value(step))), "garbage")
