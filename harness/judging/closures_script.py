"""Of an unmodified script with a coordinator: what can be said of closures that were run one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from harness.evidence.trace import UNJOINED, RunTrace
from harness.judging.native_scale import times_of
from harness.judging.verdict import Verdict

__all__ = ["ONE_BY_ONE", "why_not_judged"]

ONE_BY_ONE = (
    "closures were run one at a time, each worker in its turn, in the run as in its reference: nothing is said of "
    "updates that meet; the script's own branch for workers and parameter servers was not run"
)
_SCALED = 0.2
"""As of `harness.judging.doubted`."""


def why_not_judged(verdict: Verdict, run: RunTrace, natives: Sequence[RunTrace]) -> Iterator[str]:
    """Why nothing can be said.

    Args:
        verdict: on the script.
        run: what its chief has left.
        natives: what the script has left that was run on one device, told of a single worker.
    """
    told = run.clients[0].counters.stand_ins
    if unjoined := [each for each in told if each.what.startswith(UNJOINED)]:
        places = ", ".join(dict.fromkeys(f"{each.what} at {each.where}" for each in unjoined))
        yield (
            f"{places}: they were done only because Lockstep runs one at a time, and what they train may be missing "
            "otherwise. Call coordinator.join() before, and verify again"
        )
    laws = {law.law: law.status for law in verdict.judgements}
    if laws.get("variables_match_reference", "not_judged") == "not_judged":
        yield "no variable could be compared; see the notes, and verify the training as a function with `record`"
    if laws.get("examples_match_reference") != "held":
        yield (
            "it is not known that the run and its reference have seen the same examples: workers may draw or shuffle "
            "by themselves. Give what draws or shuffles a seed"
        )
    if verdict.outcome == "consistent":
        yield from _alone(run, natives)


def _alone(run: RunTrace, natives: Sequence[RunTrace]) -> Iterator[str]:
    """Where the script does something else with several workers than with one."""
    if _updates_apart(run):
        yield (
            "closures take gradients and leave the variables as they are: what the coordinator makes of several of "
            "them, a sum or a mean, cannot be held against one device; verify the training as a function with `record`"
        )
    missing = _examples(natives[0]) - _examples(run) if natives else set()
    if missing:
        yield (
            f"{len(missing)} examples that the script reads with a single worker were read by none of the workers, in "
            "as many steps: either each worker reads all the data in the same order, and had not come to its end, or "
            "each reads the same part of it. Have it take more steps, with a larger --first if needed"
        )
    times = times_of(run, natives[0], 1) if natives else None
    if times is None:
        yield (
            "the numbers are those of one device, and it could not be checked whether the script computes the same "
            "with a single worker: gradients were not seen, or the first closure has other examples there"
        )
    elif abs(times - 1.0) > _SCALED:
        yield (
            f"the first closure computes {times:.4g} times what the script computes with a single worker. That is "
            "right if it is meant to depend on the number of workers; each closure is an update of its own"
        )


def _updates_apart(run: RunTrace) -> bool:
    """Whether a closure has left all variables as it found them."""
    seen = [each.variables for each in run.clients[0].seen if each.variables]
    return any(
        [variable.copies for variable in one] == [variable.copies for variable in other]
        for one, other in itertools.pairwise(seen)
    )


def _examples(trace: RunTrace) -> set[int]:
    seen = [seen for client in trace.clients for seen in client.seen]
    return {number for each in seen for rows in each.examples or () for number in rows}
