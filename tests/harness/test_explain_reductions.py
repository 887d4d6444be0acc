"""What left the reductions, where it was seen, tells what the program had made of gradients before it reduced them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, RunTrace, Seen, Step, Value
from harness.judging.explain._clipping import norm_of
from harness.judging.explain._reductions import factors_of
from harness.judging.explain._response import all_count
from harness.judging.explain._view import CaseView, Floats
from harness.judging.laws import Case
from tests.harness._explaining import rule_of
from tests.harness._replicated import case

_Factors = Callable[[Sequence[float]], Sequence[float]]
"""From the norms of the replicas' gradients to the factor that each was multiplied by."""


def _with_reductions(found: Case, factors: _Factors) -> Case:
    """A case in which what left the reductions was seen: the sum of the replicas' gradients, each with a factor."""
    view = CaseView(found)
    return replace(found, run=_all_seen(view, found.run, factors), reference=_all_seen(view, found.reference, factors))


def _all_seen(view: CaseView, trace: RunTrace, factors: _Factors) -> RunTrace:
    client = trace.clients[0]
    steps = tuple(_seen(view, step, factors, alone=trace is view.case.reference) for step in client.steps)
    return RunTrace((msgspec.structs.replace(client, steps=steps), *trace.clients[1:]))


def _seen(view: CaseView, step: Step, factors: _Factors, *, alone: bool) -> Step:
    names = view.names("gradients", step.index)
    if alone:
        parts = [[view.truth("gradients", step.index, name)] for name in names]
    else:
        parts = [view.parts("gradients", step.index, name) or [] for name in names]
    given = factors(_norms(parts))
    reduced = [sum(factor * part for factor, part in zip(given, each, strict=True)) for each in parts]
    values = tuple(Value("", (Array.of(np.asarray(value, np.float32)),)) for value in reduced)
    return msgspec.structs.replace(step, seen=Seen(index=step.index, at=0.0, reduced=values))


def _norms(parts: Sequence[Sequence[Floats]]) -> list[float]:
    return [norm_of(each) for each in zip(*parts, strict=True)]


def _clipped(norms: Sequence[float]) -> list[float]:
    return [min(1.0, 0.3 / norm) for norm in norms]


def _branch(norms: Sequence[float]) -> list[float]:
    """The largest one is made a tenth, which is shorter than the others are."""
    return [0.1 if norm == max(norms) else 1.0 for norm in norms]


def _by_own_norm(norms: Sequence[float]) -> list[float]:
    """As a learning rate from the norm: the larger, the less, but not down to one norm."""
    return [1.0 / (1.0 + norm) for norm in norms]


def _same(norms: Sequence[float]) -> list[float]:
    return [1.0 for _ in norms]


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize(
    ("factors", "rule"), [(_clipped, "clipped_before_reduce"), (_branch, None), (_by_own_norm, None)]
)
def test_a_smaller_gradient_is_not_always_a_clipped_one(factors: _Factors, rule: str | None, replicas: int) -> None:
    """Clipped ones all have the threshold as their norm, and nothing is longer."""
    found = case(replicas, "clip_unseen", optimizer="sgd", slots=False, clip=0.3, unclipped=True)
    assert rule_of(found) == "clipped_before_reduce"  # where no reduction was seen, it is likely
    assert rule_of(_with_reductions(found, factors)) == rule


@pytest.mark.parametrize(("factors", "rule"), [(_same, "gradients_not_reduced"), (_branch, None)])
def test_an_update_by_one_gradient_is_not_a_sum_of_unequal_ones(factors: _Factors, rule: str | None) -> None:
    """A sum of all that is left unused is no excuse; one of gradients that a branch made smaller explains it."""
    assert rule_of(_with_reductions(case(2, "only_1", optimizer="sgd"), factors)) == rule


@pytest.mark.parametrize(("mistake", "rule"), [("whole", "loss_times_replicas"), ("only_1", "gradients_not_reduced")])
def test_the_whole_batch_in_each_replica_is_no_lack_of_a_sum(mistake: str, rule: str) -> None:
    """Adam's first update is that of one replica's gradient, which is the whole one, and of twice as much."""
    found = case(2, mistake, optimizer="adam", sizes=(12,), slots=False, examples=False)
    assert rule_of(found) == rule


def test_factors_are_found_or_nothing_is_said() -> None:
    """By replica; None where nothing was seen, or something else was reduced."""
    found = case(3, "", optimizer="sgd")
    names = CaseView(found).names("gradients", 1)
    assert factors_of(CaseView(found), 1, names) is None
    seen = CaseView(_with_reductions(found, lambda norms: (1.0, 0.5, 0.25)[: len(norms)]))
    assert factors_of(seen, 1, names) == pytest.approx([1.0, 0.5, 0.25], rel=1e-4)
    first = _with_reductions(found, _same).run.clients[0].steps[0]
    assert first.seen is not None
    other = tuple(Value("", (Array.of(value.parts[0].numpy() ** 2),)) for value in first.seen.reduced)
    changed = msgspec.structs.replace(first, seen=msgspec.structs.replace(first.seen, reduced=other))
    client = msgspec.structs.replace(found.run.clients[0], steps=(changed, *found.run.clients[0].steps[1:]))
    squared = replace(found, run=RunTrace((client, *found.run.clients[1:])))
    assert factors_of(CaseView(squared), 1, names) is None


@pytest.mark.parametrize(
    ("factors", "found"), [([2.0, 2.97e-18], False), ([2.0, -0.1], False), ([5000.0, 1.0], True), ([1.0, 1.0], True)]
)
def test_a_factor_that_is_none_is_no_share(factors: list[float], found: bool) -> None:
    """Each replica takes its own largest example: the one which has the right one has the reference's gradient alone.

    What was clipped from a huge norm has a huge factor, next to which another is small and still one.
    """
    assert all_count(factors) == found
