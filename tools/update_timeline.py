"""Draw the timeline in README.md from a real run: `python tools/update_timeline.py`.

Three workers train together. A link gets slow for a while, then a worker is killed, and the job starts again from its
checkpoint.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness.report.timeline import Timeline, read_timelines, timeline_svg  # noqa: E402
from simulator import Cluster, FaultPlan, Topology  # noqa: E402
from simulator.faults import Delay, Kill  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "timeline.svg"
PLAN = FaultPlan(
    faults=(
        Delay(src="worker:2", dst="worker:0", delay="20ms", step=10, duration="600ms"),
        Kill("worker:1", step=30),
    )
)


def train(steps: int, directory: str) -> float:
    """Solve a linear system under MultiWorkerMirroredStrategy, with a checkpoint every eight steps.

    Every step computes for some milliseconds. All workers save, each in a folder of its own, and start from the
    checkpoint of the first.
    """
    import os

    import tensorflow as tf

    import simulator

    os.chdir(directory)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        weights = tf.Variable(tf.zeros([600, 600]), aggregation=tf.VariableAggregation.SUM)
    done = tf.Variable(0)
    checkpoint = tf.train.Checkpoint(weights=weights, done=done)
    own = f"worker-{strategy.cluster_resolver.task_id}"
    manager = tf.train.CheckpointManager(checkpoint, own, max_to_keep=None)
    if latest := tf.train.latest_checkpoint("worker-0"):
        checkpoint.restore(latest)

    @tf.function
    def train_step() -> tf.Tensor:
        def replica_step() -> tf.Tensor:
            error = tf.matmul(weights, tf.eye(600)) - 1.0
            weights.assign_sub(0.1 * tf.matmul(error, tf.eye(600)))
            return tf.reduce_mean(error**2)

        return strategy.reduce("MEAN", strategy.run(replica_step), axis=None)

    loss = 0.0
    for number in range(int(done.numpy()) + 1, steps + 1):
        loss = float(train_step())
        simulator.step()
        if number % 8 == 0:
            done.assign(number)
            manager.save()
    return loss


def timeline_of_a_real_run(directory: Path, steps: int = 50) -> Timeline:
    """Run the cluster under `PLAN` and read the journal that it leaves in `directory`."""
    with Cluster(Topology(worker=3), timeout=240, out=directory, faults=PLAN, restarts=1) as cluster:
        cluster.warm_up()
        (directory / "checkpoints").mkdir()
        cluster.run(train, steps, str(directory / "checkpoints"))
    return read_timelines(directory)[0]


@click.command()
def main() -> None:
    """Bring docs/images/timeline.svg up to date."""
    with tempfile.TemporaryDirectory() as scratch:
        timeline = timeline_of_a_real_run(Path(scratch))
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(timeline_svg(timeline), encoding="utf-8")
    click.echo(f"written: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
