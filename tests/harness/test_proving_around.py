"""What a proof makes of what is around its graph: other traces of it, other calls, and what is only tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.step_graph import Argument, Graph, GraphNode, ReportedValue
from harness.recording.tracing.python_decisions import of_program
from harness.recording.tracing.result_values import joined, numbers, rows_of
from harness.recording.tracing.step_function import same_arguments, same_graphs
from harness.relations import proof_of
from tests.harness.test_proving import _number, _step


def _proof(run: dict[str, Any], alone: dict[str, Any] | None = None) -> Any:
    changed = msgspec.structs.replace(_step(2, divide=4), **run)
    reference = msgspec.structs.replace(_step(1, divide=4), **(alone or {}))
    return proof_of([changed], reference, program="p", strategy="s")


@pytest.mark.parametrize("run", [{"doubts": ("traced again",)}, {}])
def test_a_doubt_of_either_side_leaves_it_open(run: dict[str, Any]) -> None:
    """As where the program asks in Python for a length that is open."""
    proof = _proof(run, {} if run else {"doubts": ("traced again",)})
    assert proof.status == "open"
    assert proof.reasons == ("traced again",)


@pytest.mark.parametrize("run", [{"limits": ("all batches are alike",)}, {}])
def test_a_limit_of_either_side_is_a_condition(run: dict[str, Any]) -> None:
    """As where the function can be traced for the first batch's length only."""
    proof = _proof(run, {} if run else {"limits": ("all batches are alike",)})
    assert proof.status == "conditional"
    assert [each.meaning for each in proof.conditions] == ["all batches are alike"]


def _graph(scale: float, key: int) -> tuple[Graph, ...]:
    nodes = (
        GraphNode("Placeholder", "x", shapes=((None,),), dtypes=("float32",)),
        _with_digest(_number(np.float32(scale)), int(scale * 1000)),
        GraphNode("Mul", "m", ((0, 0), (1, 0)), shapes=((None,),), dtypes=("float32",)),
        _with_digest(_number(np.int32(key)), key),
        GraphNode("CollectiveReduceV2", "r", ((2, 0), (3, 0)), shapes=((None,),), dtypes=("float32",)),
    )
    return (Graph(nodes, (0,), ((4, 0),)),)


def _with_digest(node: GraphNode, digest: int) -> GraphNode:
    return msgspec.structs.replace(node, digest=digest)


def test_two_traces_agree_if_all_but_keys_and_names_is_the_same() -> None:
    """Another number is another graph, another key of a collective is not."""
    assert same_graphs(_graph(0.125, 1), _graph(0.125, 2))
    assert not same_graphs(_graph(0.125, 1), _graph(0.25, 1))
    assert not same_graphs(_graph(0.125, 1), (*_graph(0.125, 1), *_graph(0.125, 1)))


def test_two_traces_agree_if_they_capture_the_same() -> None:
    """What is given may hold something else in each call."""
    given, captured = Argument("plain", "argument 0", digest=1), Argument("plain", "captured float32 ()", digest=1)
    other = msgspec.structs.replace(given, digest=2)
    assert same_arguments([given, captured], [other, captured])
    assert not same_arguments([given, captured], [given, msgspec.structs.replace(captured, digest=2)])
    assert not same_arguments([given], [captured])


_FLOAT = SimpleNamespace(is_bool=False, is_integer=False, as_numpy_dtype=np.float32)


def test_stand_ins_fall_rise_and_change_their_sign() -> None:
    """Each for sure, of whatever number they are, and the sums of several are exact."""
    for number in range(20):
        values = [float(sum(numbers((number, replica, call), (), _FLOAT) for replica in (0, 1))) for call in range(8)]
        assert values[1] < values[0] < values[2]
        assert 0 < values[3] < 1e-3
        assert values[5] < values[6] < 0
        assert all(np.float32(value) == value for value in values)


def test_replicas_have_other_numbers_of_rows() -> None:
    """So a mean of means is not the mean, and what comes with rows is joined; what has none is a sum."""
    parts = [numbers((0, replica, 0), rows_of([None, 3], replica), _FLOAT) for replica in range(2)]
    assert [each.shape for each in parts] == [(2, 3), (3, 3)]
    assert joined(parts).shape == (5, 3)
    assert np.mean([np.mean(each) for each in parts]) != np.mean(joined(parts))
    alike = [numbers((0, replica, 0), rows_of([1, 3], replica), _FLOAT) for replica in range(2)]
    assert np.array_equal(joined(alike), alike[0] + alike[1])


def _ran(calls: int, *, cut: bool, last: str = "") -> dict[str, Any]:
    """A run that changes and reports the same in each call; `last` only in the end."""
    changed = tuple(f"change {at}" for at in range(calls)) + ((last,) if last else ())
    reported = tuple(ReportedValue("loss", at) for at in range(calls))
    return {"changed": changed, "reported": reported, "marks": tuple((at, at) for at in range(1, calls)), "cut": cut}


@pytest.mark.parametrize("other", [9, 5, 12])
def test_what_was_cut_is_compared_as_far_as_both_have_come(other: int) -> None:
    """How far a run comes is chance; that it was looked at no longer is a condition."""
    proof = _proof(_ran(9, cut=True), _ran(other, cut=True, last="another"))
    assert proof.status == "conditional", str(proof)
    assert f"until call {min(9, other) - 1} " in proof.conditions[0].meaning
    wrong = _ran(9, cut=True) | {"reported": tuple(ReportedValue("loss", 7) for _ in range(9))}
    assert _proof(wrong, _ran(other, cut=True)).status == "open"


def test_a_run_that_ends_earlier_is_another_one() -> None:
    """Whether or not the other one was cut."""
    for cut in (True, False):
        proof = _proof(_ran(9, cut=cut), _ran(5, cut=False) | {"changed": _ran(9, cut=cut)["changed"]})
        assert proof.status == "open"
        assert any("another number of times" in each for each in proof.reasons)
    assert _proof(_ran(5, cut=False), _ran(5, cut=False)).status == "proved"


class _Places:
    """In which this file is what a test says."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def is_own(self, file: str) -> bool:
        return self._kind == "own" and file == __file__

    def is_keras(self, file: str) -> bool:
        return self._kind == "keras" and file == __file__

    def is_harness(self, file: str) -> bool:
        return self._kind == "harness" and file == __file__


@pytest.mark.parametrize(("kind", "expected"), [("own", True), ("keras", False), ("harness", False), ("", True)])
def test_what_changes_between_steps_is_the_programs_unless_keras_sets_it_back(kind: str, expected: bool) -> None:
    """As it does with metrics; where it is not known who it was, it was the program."""

    def carried_out() -> bool:
        return of_program(_Places(kind))  # type: ignore[arg-type]

    def reset_state() -> bool:
        return carried_out()

    assert reset_state() is expected


def test_the_result_of_a_metric_is_asked_for_by_the_program() -> None:
    """Unless it is Keras's own loop that asks."""

    def carried_out() -> bool:
        return of_program(_Places("keras"))  # type: ignore[arg-type]

    def result() -> bool:
        return carried_out()

    def fit() -> bool:
        return result()

    assert result()
    assert not fit()
