"""Culprits that a reference which follows the run does not show: what begins wrong, what is drawn, kept statistics."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from harness import culprits
from harness.culprits import with_culprit
from harness.evidence.reference import Reference
from harness.evidence.steps import Standing
from harness.evidence.trace import ClientTrace, DrawSeen, Header, RunTrace, Seen, Step
from harness.judging.conditions import OWN, Condition
from harness.judging.culprit import Culprit, NoCulprit, draw_culprit, find_culprit
from harness.judging.culprit.kinds import SHARED
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict
from harness.running.watched_step import WatchedRuns
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_SHARES = (_X[:4], _X[4:])


def _told(first: Finding, **seen: Any) -> Verdict:
    """The verdict on a step in which this is wrong, and of which a reference that followed it has seen something."""
    header = Header("local:0", 0, "default", 1, 1, 1, 1, follows=True)
    verdict = Verdict("train.py:train", "mirrored-2", (Judgement(first.law, "broken", findings=(first,)),))
    reference = Reference(RunTrace((ClientTrace(header, (Step(1, 0.0),), seen=(Seen(1, 0.0, **seen),)),)), ())
    program = Program("train.py:train", b"", "")
    return with_culprit(verdict, program, strategy_case("mirrored-2"), Path(), reference, seed=1, timeout=1.0)


def _scaled_rate(steps: Steps, wrong: str) -> None:
    """A rate, which is read, and a sum; one of them may be wrong."""
    times = np.float32(steps.replicas)
    rate = steps.read(2, "rate", [np.float32(0.1) * (times if wrong == "rate" else 1)] * steps.replicas)
    parts = steps.each("Mean" if wrong == "sum" else "Sum", 3, lambda x: np.float32(x.sum() / len(x)), steps.batch)
    if wrong != "sum":
        parts = steps.each("Mul", 4, lambda x: x / times, parts)
    steps.assign(5, "w", steps.each("Mul", 5, lambda a, b: a * b, steps.summed(4, parts), rate))


@pytest.mark.parametrize(("wrong", "line"), [("rate", 2), ("sum", None)])
def test_what_begins_wrong_is_named_where_the_reference_does_not_follow(
    monkeypatch: pytest.MonkeyPatch, wrong: str, line: int | None
) -> None:
    """One that follows begins with what the run has. What else the step does wrong is not what differs first."""
    run, reference = watched(functools.partial(_scaled_rate, wrong=wrong), _X, *_SHARES)
    asked: list[Standing | None] = []

    def watching(*args: Any, standing: Standing | None, **options: Any) -> WatchedRuns:
        asked.append(standing)
        return WatchedRuns((run,), reference, ())

    monkeypatch.setattr(culprits, "watch_step", watching)
    monkeypatch.setattr(
        culprits, "read_parts", lambda directory: SimpleNamespace(last=RunTrace((ClientTrace(_HEADER, ()),)))
    )
    told = _told(Finding("begins_alike", "x", step=1, observable="start", variable="rate"))
    assert asked == [None]
    assert (told.culprit and told.culprit.line) == line
    if told.culprit is not None:
        assert told.culprit.relation == "variable 'rate' begins with 2 times the reference's value"


_HEADER = Header("local:0", 0, "mirrored", 2, 1, 2, 2)


@pytest.mark.parametrize(
    ("draw", "line"),
    [
        (DrawSeen("equal", "replicas draw the same", "train.py:7", operation="RandomUniform"), 7),
        (DrawSeen("equal", "replicas draw the same", "a line that is not known"), None),
    ],
)
def test_the_line_of_a_draw_is_known_without_watching(draw: DrawSeen, line: int | None) -> None:
    """It was seen when the run was followed; draws that are conditions are none."""
    culprit = draw_culprit(draw, 3)
    assert (culprit and culprit.line) == line


def test_a_wrong_draw_that_differs_first_is_the_culprit() -> None:
    """And no step is said to have been watched for it."""
    own = DrawSeen("own", "each draws its own", "train.py:3", operation="RandomUniform")
    equal = DrawSeen("equal", "replicas draw the same numbers", "train.py:7", operation="RandomUniform")
    told = _told(Finding("draws", "x", step=1, observable="draws"), draws=(own, equal))
    assert told.culprit is not None
    assert (told.culprit.where, told.culprit.op) == ("train.py:7", "RandomUniform")
    assert "culprit: train.py:7" in str(told)
    assert "watched" not in str(told)


@pytest.mark.parametrize(("status", "line"), [("held", None), ("broken", 3)])
def test_no_line_is_named_for_what_is_given(
    monkeypatch: pytest.MonkeyPatch, status: Literal["held", "broken"], line: int | None
) -> None:
    """A consistent verdict that is given what each replica has for itself says so in its first lines."""
    culprit = Culprit("train.py", 3, "mean.assign(...)", "Mean", None, "what it is", "1, found 2", (), 1)
    monkeypatch.setattr(culprits, "_looked", lambda *args, **options: culprit)
    monkeypatch.setattr(culprits, "read_parts", lambda directory: SimpleNamespace(last=None))
    law = Judgement("variables_match_reference", status, compared=1, suffices=True)
    verdict = Verdict("p", "s", (law,), conditions=(Condition(OWN, "that each replica has its own state"),))
    reference = Reference(RunTrace((ClientTrace(_HEADER, ()),)), ())
    nothing: Any = None
    told = with_culprit(verdict, nothing, nothing, Path(), reference)
    assert (told.culprit and told.culprit.line) == line


def _normalized(steps: Steps, alike: bool) -> None:
    """Moving means that replicas set, each by its own batch; nothing of the reference is seen to set them."""
    means = steps.each("Mean", 3, lambda x: np.float32(1.0 if alike else x.mean()), steps.batch)
    if steps.replicas > 1:
        steps.assign(3, "norm/moving_mean", means)
    parts = steps.each("Sum", 4, lambda x: np.float32(x.sum()), steps.batch)
    steps.assign(5, "w", steps.summed(4, parts))


@pytest.mark.parametrize(("wrong", "alike", "line"), [(True, False, 3), (True, True, None), (False, False, None)])
def test_statistics_that_replicas_keep_are_named_where_they_are_wrong(
    wrong: bool, alike: bool, line: int | None
) -> None:
    """Not where what is wrong is something else, nor where replicas have the same."""
    run, reference = watched(functools.partial(_normalized, alike=alike), _X, *_SHARES)
    found = find_culprit([run], reference, [], statistics=wrong)
    assert (found.line if isinstance(found, Culprit) else None) == line


def test_statistics_come_last() -> None:
    """What else is wrong in the step does not follow from them."""

    def program(steps: Steps) -> None:
        _normalized(steps, alike=False)
        parts = steps.each("Mean", 6, lambda x: np.float32(x.mean()), steps.batch)
        steps.assign(7, "v", steps.summed(7, parts))

    run, reference = watched(program, _X, *_SHARES)
    found = find_culprit([run], reference, [], statistics=True)
    assert isinstance(found, Culprit), found
    assert found.line == 6


def test_a_copy_that_replicas_share_has_its_line_at_any_step() -> None:
    """What the second one reads is what the first has made of it, and was right when the step began."""

    def program(steps: Steps, kept: str) -> None:
        total = steps.read(3, "total", [np.float32(5.0), np.float32(7.0)][: steps.replicas])
        own = steps.each("Sum", 4, lambda rows: np.float32(rows.sum()), steps.batch)
        steps.assign(5, "total", steps.each("AddV2", 5, lambda a, b: a + b, total, own), kept)

    def found(kept: str, step: int) -> Culprit | NoCulprit:
        run, reference = watched(functools.partial(program, kept=kept), _X, *_SHARES, step=step)
        return find_culprit([run], reference, [])

    shared, separate = found("plain", 7), found("mirrored", 7)
    assert isinstance(shared, Culprit)
    assert (shared.line, shared.kind) == (3, SHARED.code)
    assert isinstance(separate, NoCulprit)
    assert separate.earlier
