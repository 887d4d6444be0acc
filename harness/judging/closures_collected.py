"""Of a coordinator that puts together what several closures compute: whether that is what a single worker leads to.

Such closures leave the variables as they are, and after each round, one closure of every worker, the coordinator
updates them. If all workers have the examples of a single one, a mean of their gradients, or a sum of shares, is what
a single worker leads to. A sum of means is not; but a sum of sums, which is right, cannot be told from it by that. So
the script is also run with a single worker that has each example several times: a mean stays as it is then.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.trace import RunTrace, Seen
from harness.evidence.witness_values import rows_of
from harness.judging.laws.protocol import Finding
from harness.judging.native_scale import SCALED
from harness.judging.reduction import gradients_of, multiple

if TYPE_CHECKING:
    import numpy as np

    Arrays = list[np.ndarray[Any, Any]]


_LAW = "variables_match_reference"


def updates_apart(run: RunTrace) -> bool:
    """Whether a closure has left all variables as it found them."""
    seen = [each.variables for each in run.clients[0].seen if each.variables]
    return any(
        [variable.copies for variable in one] == [variable.copies for variable in other]
        for one, other in itertools.pairwise(seen)
    )


def as_one_worker(run: RunTrace, alone: RunTrace) -> bool:
    """Whether every round of the run, of the same examples, has left what a closure of a single worker leaves.

    Args:
        run: whose closures leave variables as they are.
        alone: of the script, told of a single worker.
    """
    factors = list(_factors(run, alone))
    return bool(factors) and all(_is(factor, 1.0) for factor in factors)


def added_up(run: RunTrace, alone: RunTrace, repeated: RunTrace) -> Iterator[Finding]:
    """That a coordinator adds up what it should average; nothing where that is not certain.

    Args:
        run: as of `as_one_worker`.
        alone: as of `as_one_worker`.
        repeated: of the script, told of a single worker, with each of its examples as often as the run has workers.
    """
    count, first = _workers(run), next(_factors(run, alone), None)
    if first is None or not _is(first, float(count)):
        return
    one, several = alone.clients[0].seen[0], repeated.clients[0].seen[:1]
    if not several or sorted(rows_of(several[0])) != sorted(rows_of(one) * count):
        return
    # Each closure by itself computes what a single worker does, and that is a mean.
    alike = [*run.clients[0].seen[:count], several[0]]
    if all(_is(multiple(gradients_of(each), gradients_of(one)), 1.0) for each in alike):
        yield Finding(
            _LAW,
            f"round 1, of {count} closures: what the coordinator makes of their gradients changes the variables "
            f"{first:.4g} times as much as with a single worker, of the same examples. Each closure averages over its "
            "own examples, and the averages are added up: divide by the number of closures",
            step=count,
            observable="variables",
            observed=first,
            expected=1.0,
            bound=SCALED,
        )


def _factors(run: RunTrace, alone: RunTrace) -> Iterator[float | None]:
    """By round, how many times as far from the beginning the variables are as with a single worker.

    None where the directions differ. Nothing if there are no rounds, or other examples in one of them.
    """
    seen, single, count = run.clients[0].seen, alone.clients[0].seen, _workers(run)
    if count < 2:
        return
    rounds = [seen[begin : begin + count] for begin in range(0, len(seen) - count + 1, count)]
    if not rounds or not all(map(_is_round, rounds)):
        return
    begin = _values(rounds[0][0])
    for closures, one in zip(rounds, single, strict=False):
        if any(each.examples is None or each.examples != one.examples for each in closures):
            return
        mine, truth = _values(closures[-1]), _values(one)
        if not mine or not truth:
            continue  # of this step no numbers are kept
        if [each.shape for each in mine] != [each.shape for each in begin] or len(truth) != len(mine):
            return
        ours, theirs = ([array - start for array, start in zip(each, begin, strict=True)] for each in (mine, truth))
        yield multiple(ours, theirs)


def _is_round(closures: Sequence[Seen]) -> bool:
    """Whether each worker ran one of them, and nothing was changed before the last."""
    before = [each.variables for each in closures[:-1] if each.variables]
    apart = all(
        [variable.copies for variable in one] == [variable.copies for variable in other]
        for one, other in itertools.pairwise(before)
    )
    return apart and [each.worker for each in closures] == list(range(len(closures)))


def _values(seen: Seen) -> Arrays:
    return [
        variable.copies[0].numpy().astype("f8")
        for variable in seen.variables or ()
        if variable.copies[0].dtype.startswith(("float", "bfloat"))
    ]


def _workers(run: RunTrace) -> int:
    return len({each.worker for each in run.clients[0].seen if each.worker is not None})


def _is(factor: float | None, wanted: float) -> bool:
    return factor is not None and abs(factor - wanted) <= SCALED
