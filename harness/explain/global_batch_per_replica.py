"""Rule: each replica received a whole global batch, so that an epoch took fewer, larger steps."""

from __future__ import annotations

from collections.abc import Iterable

from harness.consumed import by_step, recorders
from harness.explain._prediction import Predicting, evident
from harness.explain._scene import Scene
from harness.explain.protocol import Attempt, Rule

__all__ = ["RULES"]

_ID = "global_batch_per_replica"
_CURE = (
    "Batch by context.get_per_replica_batch_size(global_batch) in distribute_datasets_from_function, or let "
    "strategy.experimental_distribute_dataset split batches of the global size; with Model.fit pass the global batch "
    "size once, not times strategy.num_replicas_in_sync on top of a dataset that is not rebatched."
)


def _attempts(scene: Scene) -> Iterable[Attempt | None]:
    if scene.replicas > 1:
        yield _by_ids(scene)


def _evidence(scene: Scene) -> Iterable[Attempt | None]:
    if scene.replicas > 1 and not recorders(scene.case.run)[0]:
        yield _by_steps(scene)


def _by_ids(scene: Scene) -> Attempt | None:
    """Every replica consumed as many examples as the reference's whole batch, and not the same ones as the others."""
    pairs = by_step(scene.case)
    if not pairs:
        return None
    for step, _, truth in pairs:
        shards = scene.shards(step)
        if shards is None or not truth:
            return None
        # The run's last step may hold the reference's last batch, which need not be a full one.
        if any(len(shard) != truth.total() for shard in shards) and (step == pairs[0][0] or step != pairs[-1][0]):
            return None
        if len({tuple(sorted(shard)) for shard in shards}) < len(shards):
            return None  # everybody read the same: that is `examples_duplicated`
    step, seen, truth = pairs[0]
    run, reference = (len(trace.clients[0].steps) for trace in (scene.case.run, scene.case.reference))
    return evident(
        _ID,
        f"At every step each of the {scene.replicas} replicas consumed {truth.total()} examples, which is the "
        f"reference's whole batch: {seen.total()} at step {step} instead of {truth.total()}, and {run} steps instead "
        f"of {reference}. {_CURE}",
    )


def _by_steps(scene: Scene) -> Attempt | None:
    """No ids: the run took one R-th of the steps, and the first loss is wrong already."""
    run, reference = (len(trace.clients[0].steps) for trace in (scene.case.run, scene.case.reference))
    per = scene.replicas
    wrong = scene.wrong("loss", 1) or scene.wrong("gradients", 1) or scene.wrong("variables", 1)
    if reference < per or run not in {reference // per, -(-reference // per)} or run == reference or not wrong:
        return None
    return evident(
        _ID,
        f"The run took {run} steps where the reference took {reference}, {per} times as many, and differs from the "
        f"first step on: steps are as many times larger as there are replicas. Example ids in record.step would prove "
        f"it. {_CURE}",
    )


RULES: tuple[Rule, ...] = (Predicting(_ID, 5, _attempts, _evidence),)
