"""Of an unmodified script with a coordinator: what can be said of closures that were run one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.evidence.stand_ins import UNFINISHED, UNJOINED, StandIn
from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import rows_of
from harness.judging.closures_collected import added_up, as_one_worker, updates_apart
from harness.judging.closures_shared import badly_shared
from harness.judging.laws.protocol import Finding
from harness.judging.native_scale import SCALED, times_of
from harness.judging.verdict import Verdict
from harness.subject.script import Updates

SERVERS = "the script's own branch for workers and parameter servers was not run"


@dataclass(frozen=True)
class SingleWorkerScript:
    """What a script with a coordinator leaves that is run on one device and told of a single worker.

    Attributes:
        reads: with the data that it reads then; None where it cannot be run so.
        repeated: the same with each example as often as there are workers; None also where nobody asks for it.
        follows: with the examples and draws of the run.
    """

    reads: RunTrace | None = None
    repeated: RunTrace | None = None
    follows: RunTrace | None = None


def not_comparable(
    verdict: Verdict, runs: Sequence[RunTrace], reference: RunTrace, *, returned: bool = False
) -> Iterator[str]:
    """Why the numbers of such a run say nothing.

    Args:
        verdict: on the script.
        runs: what its chief has left, in parts.
        reference: what has followed it.
        returned: whether a worker has come back in one of these parts.
    """
    laws = {law.law: law.status for law in verdict.judgements}
    if verdict.outcome == "inconsistent":
        yield from _unjoined(runs)
    if laws.get("variables_match_reference", "not_judged") == "not_judged":
        yield "no variable could be compared; see the notes, and verify the training as a function with `record`"
    given = any(step.seen is not None and step.seen.given is not None for step in reference.clients[0].steps)
    if not given and not any(map(_examples, runs)):
        yield (
            "no example was seen, so that it is not known whether the run and its reference have had the same ones. "
            "Give examples to strategy.run, in what the closure calls, or verify the training as a function with "
            "`record`"
        )
    if verdict.outcome == "inconsistent" and returned and not _between_closures(verdict):
        yield (
            "a worker was lost while it may have run a closure, which the coordinator then had another go at: what it "
            "had done of it until then is done twice. Kill workers after a step (step=N), and verify again"
        )


def wrong_together(run: RunTrace, alone: SingleWorkerScript, updates: Updates | None) -> Iterator[Finding]:
    """What is wrong with several workers, of a run that is what its reference is, in which no task was started again.

    Args:
        run: what its chief has left.
        alone: what the script leaves with a single worker.
        updates: what the user says that closures are.
    """
    apart = updates_apart(run)
    if not apart:
        yield from _unfinished(run)
    if alone.reads is not None:
        yield from badly_shared(run, alone.reads)
        if apart and alone.repeated is not None:
            yield from added_up(run, alone.reads, alone.repeated)
    if not apart and alone.follows is not None:
        yield from _scaled_otherwise(run, alone.follows, updates)


def why_not_judged(runs: Sequence[RunTrace], alone: SingleWorkerScript, updates: Updates | None) -> Iterator[str]:
    """Where a script that is what its reference is may do something else with several workers than with one.

    Args:
        runs: what its chief has left, in parts.
        alone: as of `wrong_together`.
        updates: as of `wrong_together`.
    """
    yield from _unjoined(runs)
    run = runs[0]
    apart = updates_apart(run)
    if apart and not (alone.reads is not None and as_one_worker(run, alone.reads)):
        yield (
            "closures take gradients and leave the variables as they are: what the coordinator makes of several of "
            "them, a sum or a mean, cannot be held against one device, unless all workers have the same examples in a "
            "round; verify the training as a function with `record`"
        )
    missing = set() if alone.reads is None else _examples(alone.reads) - set().union(*map(_examples, runs))
    if missing:
        cut = run.clients[0].counters.cut is not None
        more = "Judge more of its steps, with a larger --first" if cut else "Have it take more steps"
        yield (
            f"{len(missing)} examples that the script reads with a single worker were read by none of the workers, in "
            "as many steps: each worker reads all the data in the same order, and had not come to its end, or each "
            "reads the same part of it, or they are drawn, as by a shuffle before a take, or the coordinator gives "
            f"them to nobody. {more}"
        )
    times = None if alone.follows is None else times_of(run, alone.follows, 1)
    if times is None:
        yield (
            "the numbers are those of one device, and it could not be checked whether the script computes the same "
            f"with a single worker: {'it fails there' if alone.follows is None else 'gradients were not seen'}"
        )
    elif abs(times - 1.0) > SCALED and not apart and updates is None:
        yield (
            f"the first closure computes {times:.4g} times what the script computes with a single worker. That is "
            "wrong if each closure is an update of its own, and right if those of all workers together make up one. "
            "Say which, with --assume closures=updates or --assume closures=shares"
        )


def _unjoined(runs: Sequence[RunTrace]) -> Iterator[str]:
    if unjoined := [each for each in _told(runs) if each.what.startswith(UNJOINED)]:
        places = "; ".join(dict.fromkeys(f"{each.what}, scheduled at {each.where}" for each in unjoined))
        yield (
            f"{places}: they were done only because Lockstep runs one at a time, and what they train may be missing "
            "otherwise. Call coordinator.join() before, and verify again"
        )


def _unfinished(run: RunTrace) -> Iterator[Finding]:
    for each in _told([run]):
        if each.what.startswith(UNFINISHED):
            yield Finding(
                "updates_counted",
                f"{each.what}, scheduled at {each.where}: TensorFlow promises that a closure is done when "
                "coordinator.join() or fetch() has returned, and not before, so that what is left at the end may lack "
                "what they train. It had it only because Lockstep runs one at a time. Call coordinator.join() before",
            )


def _told(runs: Sequence[RunTrace]) -> list[StandIn]:
    return [each for run in runs for each in run.clients[0].counters.stand_ins]


def _between_closures(verdict: Verdict) -> bool:
    """Whether nothing has struck but kills of tasks at steps, at which the chief stands and no closure is run."""
    plan = (verdict.faults or {}).get("plan", {})
    kills = all(fault.get("kind") == "kill" and "step" in fault for fault in plan.get("fault", ()))
    return kills and not plan.get("link")


def _examples(trace: RunTrace) -> set[int]:
    seen = [seen for client in trace.clients for seen in client.seen]
    return {number for each in seen for number in rows_of(each)}


# Of a coordinator's closures: whether they are scaled by the number of workers, where the user says what they are.
#
# Nothing in a script tells whether each closure is an update of its own, whose loss is the mean over its own
# examples, or those of all workers together make up one update, each with its share. Both are trained; only the user
# knows which. More than a single worker computes of the same examples is neither.


def _scaled_otherwise(run: RunTrace, alone: RunTrace, updates: Updates | None) -> Iterator[Finding]:
    """That the first closure computes another multiple of what it does with a single worker than it should.

    Args:
        run: of the script.
        alone: of the script, told of a single worker.
        updates: what closures are: `updates` of their own, or `shares` of one; None where the user has not said.
    """
    workers = {each.worker for each in run.clients[0].seen if each.worker is not None}
    times = times_of(run, alone, 1)
    if times is None or not workers:
        return
    share = 1.0 / len(workers)
    wanted = share if updates == "shares" else 1.0
    if updates is None:
        if times <= 1.0 + SCALED:
            return  # one or the other, which `why_not_judged` asks for
        right = (
            f"as much is right where each closure is an update of its own, and {share:.4g} times where each is one of "
            f"{len(workers)} shares of an update"
        )
    else:
        meant = "an update of its own" if updates == "updates" else f"one of {len(workers)} shares of an update"
        right = f"{wanted:.4g} times is right where each closure is {meant}, as was assumed"
    # Relative, as a share may be small.
    if abs(times - wanted) > SCALED * wanted:
        yield Finding(
            "gradients_match_reference",
            f"step 1: the first closure computes {times:.4g} times what the script computes with a single worker, of "
            f"the same examples, and {right}",
            step=1,
            observable="gradients",
            observed=times,
            expected=wanted,
            bound=SCALED * wanted,
        )
