"""Rule: each replica received a whole global batch, so that an epoch took fewer, larger steps."""

from __future__ import annotations

from collections.abc import Iterable

from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.causes import cause_of
from harness.judging.explain.protocol import Attempt, Rule
from harness.ledger import Ledger, aligned

_ID = "global_batch_per_replica"
_CURE = (
    "Batch by context.get_per_replica_batch_size(global_batch) in distribute_datasets_from_function, or let "
    "strategy.experimental_distribute_dataset split batches of the global size; with Model.fit pass the global batch "
    "size once, not times strategy.num_replicas_in_sync on top of a dataset that is not rebatched."
)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    if view.replicas > 1:
        yield _by_ids(view)


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    if view.replicas > 1 and not Ledger.of(view.case.run).clients:
        yield _by_steps(view)


def _by_ids(view: CaseView) -> Attempt | None:
    """Every replica consumed as many examples as the reference's whole batch, and not the same ones as the others."""
    both = aligned(view.case.run, view.case.reference)
    common, batches = both.common, both.reference.sizes()
    if both.run.silent or not common or any(step not in batches for step in common):
        return None
    whole = {step: sum(size for sizes in batches[step].values() for size in sizes) for step in common}
    for step in common:
        shards = view.shards(step)
        if shards is None or not whole[step]:
            return None
        # The run's last step may hold the reference's last batch, which need not be a full one.
        if any(len(shard) != whole[step] for shard in shards) and (step == common[0] or step != common[-1]):
            return None
        if len({tuple(sorted(shard)) for shard in shards}) < len(shards):
            return None  # everybody read the same: that is `examples_duplicated`
    size, seen = whole[common[0]], len(both.run.where(step=common[0]))
    run, reference = (len(trace.clients[0].steps) for trace in (view.case.run, view.case.reference))
    what = (
        f"At every step each of the {view.replicas} replicas consumed {size} examples, which is the reference's whole "
        f"batch: {seen} at step {common[0]} instead of {size}, and {run} steps instead of {reference}."
    )
    cause = cause_of(view.case)
    return evident(
        _ID,
        what,
        None if cause is None else cause.cause,
        None if cause is None else f"Cause, {cause.cause}: {cause.text}",
    )


def _by_steps(view: CaseView) -> Attempt | None:
    """No ids: the run took one R-th of the steps, and the first loss is wrong already."""
    run, reference = (len(trace.clients[0].steps) for trace in (view.case.run, view.case.reference))
    per = view.replicas
    wrong = view.wrong("loss", 1) or view.wrong("gradients", 1) or view.wrong("variables", 1) or _is_larger(view)
    if reference < per or run not in {reference // per, -(-reference // per)} or run == reference or not wrong:
        return None
    return evident(
        _ID,
        f"The run took {run} steps where the reference took {reference}, {per} times as many, and differs from the "
        f"first step on: steps are as many times larger as there are replicas. Example ids in record.step would prove "
        f"it.",
    )


def _is_larger(view: CaseView) -> bool:
    """Whether the replicas were given so many times the examples that one device is given at the first step."""
    seen = next((step.seen for step in view.case.reference.clients[0].steps), None)
    given = None if seen is None else seen.given
    return given is not None and given.rows == view.replicas * given.own


RULES: tuple[Rule, ...] = (Predicting(_ID, 5, _attempts, _evidence, cure=_CURE),)
