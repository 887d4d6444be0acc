"""Which operations are looked at when a step is watched once more, since not all fit into one run.

An operation is looked at in all replicas, in the reference and in its reruns with noise in the same run: only together
do their values say something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.evidence.watch_request import WatchRequest
from harness.evidence.watched_step import WatchedStep
from harness.judging.culprit.alignment import Alignment, OperationNode

_Of = tuple[str, int]
_Group = frozenset[tuple[_Of, int]]
_REFERENCE: _Of = ("reference", 0)


def next_look(
    clients: Sequence[WatchedStep], reference: WatchedStep, noisy: Sequence[WatchedStep], asked: WatchRequest, most: int
) -> WatchRequest:
    """The operations to look at, at most so many in each process: what is asked for, and an even share of the others.

    Where more is asked for, an even share of that, so that values that are right end ways early.
    """
    aligned = Alignment(clients, reference, noisy)
    unseen = {_REFERENCE: _unseen(reference)}
    unseen |= {("client", place): _unseen(each) for place, each in enumerate(clients)}
    unseen |= {("noisy", place): _unseen(each) for place, each in enumerate(noisy)}
    wanted = _groups(aligned, _by_process(asked), unseen)
    chosen = _share(wanted, most)
    rest = _groups(aligned, unseen, unseen)
    left = most - _largest(chosen)
    more = _share([group for group in rest if group not in chosen], left)
    if _largest(more) <= left:
        chosen |= more
    numbers: dict[_Of, set[int]] = {of: set() for of in unseen}
    for group in chosen:
        for of, number in group:
            numbers[of].add(number)
    return WatchRequest(
        tuple(numbers["client", place] for place in range(len(clients))),
        numbers[_REFERENCE],
        tuple(numbers["noisy", place] for place in range(len(noisy))),
    )


def _unseen(watched: WatchedStep) -> set[int]:
    return {op.number for op in watched.ops if not op.seen}


def _by_process(asked: WatchRequest) -> dict[_Of, set[int]]:
    found = {_REFERENCE: asked.reference}
    found |= {("client", place): numbers for place, numbers in enumerate(asked.clients)}
    found |= {("noisy", place): numbers for place, numbers in enumerate(asked.noisy)}
    return found


def _groups(aligned: Alignment, numbers: dict[_Of, set[int]], unseen: dict[_Of, set[int]]) -> list[_Group]:
    """The operations with what stands for them in other processes, without what has been looked at, in their order."""
    truths = {
        ("noisy", place): {ours: theirs for theirs, ours in pairs.items()} for place, pairs in enumerate(aligned.noise)
    }
    found: dict[_Group, None] = {}
    for of, each in numbers.items():
        for number in sorted(each):
            truth: int | None = number
            if of[0] == "client":
                truth = aligned.truths.get(OperationNode(of[1], number))
            elif of[0] == "noisy":
                truth = truths[of].get(number)
            group = {(of, number)} | (set() if truth is None else set(_all(aligned, truth)))
            found[frozenset((one, other) for one, other in group if other in unseen[one])] = None
    return list(found)


def _all(aligned: Alignment, truth: int) -> Iterable[tuple[_Of, int]]:
    """An operation of the reference, and all that stand for it."""
    yield _REFERENCE, truth
    for node in aligned.counterparts.get(truth, ()):
        yield ("client", node.client), node.number
    for place, pairs in enumerate(aligned.noise):
        if truth in pairs:
            yield ("noisy", place), pairs[truth]


def _share(groups: Sequence[_Group], most: int) -> set[_Group]:
    """As many as fit, evenly, and one at least."""
    every = max(1, _largest(groups) // max(1, most))
    while _largest(found := groups[::every]) > most and len(found) > 1:
        every += 1
    return set(found)


def _largest(groups: Iterable[_Group]) -> int:
    """How many operations the process has that has most of them."""
    counts: dict[_Of, int] = {}
    for group in groups:
        for of, _ in group:
            counts[of] = counts.get(of, 0) + 1
    return max(counts.values(), default=0)
