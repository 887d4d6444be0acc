"""The line of an input pipeline that is blamed: of the one that is trained from, and of none if that is not known."""

from __future__ import annotations

import linecache
from typing import Literal

import pytest

from harness.evidence.pipelines import Pipeline, Transformation
from harness.judging.culprit import Culprit, NoCulprit, pipeline_culprit

_How = Literal["dataset", "function"] | None


def _pipeline(*made: tuple[str, str], line: str = "a.py:9", step: int = 1, how: _How = "dataset") -> Pipeline:
    return Pipeline(line, how, tuple(Transformation(*each) for each in reversed(made)), step)


_TRAIN = _pipeline(("Range", "a.py:1"), ("Shard", "a.py:2"), ("Batch", "a.py:3"), ("Prefetch", "a.py:3"))


def _blamed(*pipelines: Pipeline, kinds: tuple[str, ...] = ("Shard",), step: int = 1) -> str | None:
    found = pipeline_culprit(pipelines, kinds, "wrong", step)
    return found.where if isinstance(found, Culprit) else None


def test_the_last_of_the_kinds_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its text, and all that the pipeline is made of, in the order of the program."""
    monkeypatch.setattr(linecache, "getline", lambda file, line: f"  line {line}\n")
    found = pipeline_culprit([_TRAIN], ["Shard"], "every worker takes the same", 2)
    assert isinstance(found, Culprit)
    assert found.lines == (
        "a.py:2  line 2",
        "every worker takes the same",
        "inputs: Range at a.py:1; Shard at a.py:2; Batch, Prefetch at a.py:3; output: given to the strategy at a.py:9",
    )
    assert _blamed(_TRAIN, kinds=("Range", "Batch")) == "a.py:3"


def test_what_is_missing_is_missing_where_replicas_are_given_the_pipeline() -> None:
    """Of a function of an input context that is where what it returns ends."""
    assert _blamed(_TRAIN, kinds=("AutoShardPolicy.OFF",)) == "a.py:9"
    assert _blamed(_pipeline(("Range", "a.py:1"), ("Batch", "a.py:3"), how="function")) == "a.py:3"
    assert _blamed(_pipeline(("Range", "a.py:1"), how=None)) == "a.py:9"


def test_another_pipeline_is_not_blamed() -> None:
    """One that is iterated only later, such as that of an evaluation, or by one process for itself."""
    later = _pipeline(("Shard", "a.py:20"), line="a.py:29", step=4)
    alone = _pipeline(("Shard", "a.py:30"), line="a.py:39", how=None)
    assert _blamed(_TRAIN, later, alone, step=3) == "a.py:2"
    assert _blamed(later, alone, step=3) == "a.py:30"


def test_no_line_is_guessed() -> None:
    """Where two pipelines could be it, these are told; where none was seen, that is."""
    second = _pipeline(("Shard", "a.py:20"), line="a.py:29")
    found = pipeline_culprit([_TRAIN, second], ["Shard"], "wrong", 1)
    assert found == NoCulprit("it may be made at any of these lines of input pipelines: a.py:2, a.py:20")
    assert isinstance(pipeline_culprit([], ["Shard"], "wrong", 1), NoCulprit)
    assert _blamed(_TRAIN, _pipeline(("Shard", "a.py:2"), line="a.py:40")) == "a.py:2"
