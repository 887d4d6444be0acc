"""Whether replicas are given examples again that come back later otherwise, or the same ones as another replica."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence

from harness.evidence.deposit import Training
from harness.evidence.digests import EXAMPLES, digests_of
from harness.judging.wording import joined
from harness.live.findings import StepFinding
from harness.live.state import replicas_of

_KNOWN_MIN = 20
"""Steps by which it is known after how many others a batch comes again, or that none does."""
_SOON, _LATE = 0.5, 1.5
"""Of the steps after which batches come again, what is less is too soon, and what is more is too late."""
_SHARED_MIN = 8
"""Batches one after another that several replicas have, by which it is known that this is no accident."""
_RARE = 0.05
"""A program that means to give a batch again does so at more than this share of its steps."""


def repeats(training: Training) -> Iterator[tuple[int, StepFinding]]:
    """The steps from which on replicas are given what they had shortly before, each with what is wrong.

    A batch is known by a digest, so that its examples have to come together again. Nothing is said of data that are
    shuffled anew by example, except where a whole batch comes again.
    """
    names, given = _given(training)
    found: dict[tuple[int, str], list[str]] = {}
    for number, name in enumerate(names):
        own = [(step, digests[number]) for step, digests in given]
        for step, text in _too_soon(own):
            found.setdefault((step, text), []).append(name)
    for (step, text), replicas in sorted(found.items()):
        whose = replicas[0] if len(replicas) == 1 < len(names) else None
        yield step, StepFinding("data", "examples_in_turn", text, replica=whose)


def shared(training: Training) -> Iterator[tuple[int, StepFinding]]:
    """The steps from which on several replicas are given the same examples, each with what is wrong.

    A few steps may be so by accident, where the same examples are there several times; and what is the same at each
    step, as all of the data may be, is no share of a batch.
    """
    names, given = _given(training)
    open_: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for step, digests in [*given, (0, ())]:
        alike: dict[int, list[int]] = {}
        for number, digest in enumerate(digests):
            alike.setdefault(digest, []).append(number)
        now = {tuple(replicas): digest for digest, replicas in alike.items() if len(replicas) > 1}
        for replicas in [each for each in open_ if each not in now]:
            ended = open_.pop(replicas)
            if len({digest for _, digest in ended}) >= _SHARED_MIN:
                (first, _), (last, _) = ended[0], ended[-1]
                text = f"{joined([names[each] for each in replicas])} are given the same examples"
                until = f", until step {last}" if last < given[-1][0] else ""
                yield first, StepFinding("data", "examples_in_turn", text + until)
        for replicas, digest in now.items():
            open_.setdefault(replicas, []).append((step, digest))


def _given(training: Training) -> tuple[list[str], list[tuple[int, tuple[int, ...]]]]:
    """What its replicas are called, and at each step the digests of what all of them were given."""
    names = [name for job in training.folders.values() for name in replicas_of(job)]
    found = (
        (each[0].step, tuple(digest for one in each for digest in one.begin))
        for each in digests_of(training.folders, EXAMPLES)
    )
    return names, [(step, digests) for step, digests in found if len(digests) == len(names)]


def _too_soon(given: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Of what one replica was given at each step, the steps at which it was too soon, of those in a row the first.

    A batch that never comes again as others do is one of other data, such as a few that a program begins with; and the
    first one may be given several times, as to build a model.
    """
    last: dict[int, int] = {}
    after: dict[int, int] = {}
    for step, digest in given:
        if digest in last:
            after[step] = step - last[digest]
        last[digest] = step
    lead = sum(1 for _ in itertools.takewhile(lambda each: each[1] == given[0][1], given))
    if len(after) >= _KNOWN_MIN:
        usual = statistics.median(after.values())
        known_as = dict(given)
        regular = [step for step, steps in after.items() if _SOON * usual <= steps <= _LATE * usual]
        come_again = {known_as[step] for step in regular}
        soon = (step for step, steps in after.items() if steps < _SOON * usual and after.get(step - 1) != steps)
        firsts = [step for step in soon if known_as[step] in come_again]
        late = sum(steps > _LATE * usual for steps in after.values())
        known, otherwise = len(regular) + late + len(firsts), f"which come again after {usual:g} steps otherwise"
        odd = late + len(firsts)
    else:  # where an epoch ends all that follow come again
        firsts = [step for step in after if step < given[-1][0] and step + 1 not in after]
        known, otherwise, odd = len(given), "and no others come again", len(firsts)
    if known >= _KNOWN_MIN and odd <= _RARE * known:
        for step in firsts:
            if step > lead:
                yield step, f"step {step} was given the examples of step {step - after[step]}, {otherwise}"
