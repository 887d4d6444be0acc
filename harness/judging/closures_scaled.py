"""Of a coordinator's closures: whether they are scaled by the number of workers, where the user says what they are.

Nothing in a script tells whether each closure is an update of its own, whose loss is the mean over its own examples, or
those of all workers together make up one update, each with its share. Both are trained; only the user knows which. More
than a single worker computes of the same examples is neither.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.trace import RunTrace
from harness.judging.laws.protocol import Finding
from harness.judging.native_scale import SCALED, times_of
from harness.subject.script import Updates

__all__ = ["scaled_otherwise"]


def scaled_otherwise(run: RunTrace, alone: RunTrace, updates: Updates | None) -> Iterator[Finding]:
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
