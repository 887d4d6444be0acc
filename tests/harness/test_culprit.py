"""The culprit of made-up steps: every mistake has a line, and the right program beside it has none."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import culprits
from harness.culprits import with_culprit
from harness.evidence.parts import Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Step
from harness.evidence.watched_step import Frame, TakenApart
from harness.judging.culprit import Culprit, Looked, NoCulprit, WrongReport, find_culprit
from harness.judging.culprit.kinds import BRANCH, NO_SUM, TWICE
from harness.judging.verdict import Verdict
from harness.report import Cell, Matrix
from harness.report.pages import matrix_page
from harness.running.watched_step import WatchedRuns
from harness.saved_run import with_saved_findings
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_W = np.array([0.5, -1.0, 2.0, 0.25], np.float32)
_EVEN = (_X[:4], _X[4:])
_UNEVEN = (_X[:5], _X[5:])
_DIVIDED = "gradient_tape/loss/truediv/RealDiv"


def _program(
    loss: Callable[[Steps, list[int], list[int]], list[int]], factor: float = 1.0, reduced: bool = True
) -> Any:
    """A linear model; `loss` gives what the gradient is multiplied by and summed over."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        gradient = loss(steps, rows, w)
        if reduced:
            gradient = steps.summed(9, gradient, factor)
        rate = steps.each("Mul", 10, lambda g: np.float32(0.1) * g, gradient)
        steps.assign(10, "w", rate)

    return program


def _sum(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    return steps.each("RealDiv", 4, lambda r: np.float32(r.sum() / 8), rows)


def _mean(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    return steps.each("Mean", 4, lambda r: np.float32(r.mean()), rows)


def _mean_over_replicas(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    mean = steps.each("Mean", 4, lambda r: np.float32(r.mean()), rows)
    return steps.each("RealDiv", 5, lambda m: m / np.float32(steps.replicas), mean)


def _twice_divided(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    return steps.each("RealDiv", 5, lambda m: m / np.float32(steps.replicas), _sum(steps, rows, w))


def _regularized(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    penalty = steps.each("L2Loss", 5, lambda w: np.float32((w**2).sum()), w)
    return steps.each("AddV2", 6, lambda a, b: a + b, _sum(steps, rows, w), penalty)


def _regularized_share(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    penalty = steps.each("L2Loss", 5, lambda w: np.float32((w**2).sum() / steps.replicas), w)
    return steps.each("AddV2", 6, lambda a, b: a + b, _sum(steps, rows, w), penalty)


def _clipped(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    return steps.each("Minimum", 5, lambda s: np.minimum(s, np.float32(0.001)) ** 2, _sum(steps, rows, w))


def _hardest(steps: Steps, rows: list[int], w: list[int]) -> list[int]:
    top = steps.each("TopKV2", 4, lambda r: np.sort(r)[-2:], rows)
    return steps.each("Sum", 5, lambda r: np.float32(r.sum()), top)


def _found(program: Any, *shards: Any, step: int = 1, **options: Any) -> Culprit | NoCulprit:
    """What is found in the step of a program whose replicas are given these shards."""
    run, reference = watched(program, _X, *shards, step=step)
    return find_culprit([run], reference, [], **options)


def _culprit(program: Any, *shards: Any) -> Culprit:
    found = _found(program, *shards)
    assert isinstance(found, Culprit), found
    return found


@pytest.mark.parametrize(
    ("loss", "shards", "line", "word"),
    [
        (_mean, _EVEN, 4, "its own 4 of 8 examples; the mean of the two is the reference's value"),
        (_mean, _UNEVEN, 4, "its own 5, 3 of 8 examples"),
        (_mean_over_replicas, _UNEVEN, 4, "weighted"),
        (_twice_divided, _EVEN, 5, "1/2 of the reference's value"),
        (_regularized, _EVEN, 6, "counts 2 times"),
        (_clipped, _EVEN, 5, "before that was added up"),
        (_hardest, _EVEN, 4, "over each replica's own examples"),
    ],
)
def test_the_line_that_broke_it_is_named(loss: Any, shards: Any, line: int, word: str) -> None:
    """Seven mistakes, each by its line and by what its values prove."""
    found = _culprit(_program(loss), *shards)
    assert found.line == line
    assert word in found.relation


@pytest.mark.parametrize(
    ("loss", "factor", "shards"),
    [
        (_sum, 1.0, _EVEN),
        (_sum, 1.0, _UNEVEN),
        (_mean_over_replicas, 1.0, _EVEN),
        (_mean, 0.5, _EVEN),
        (_regularized_share, 1.0, _UNEVEN),
    ],
)
def test_a_right_program_has_no_culprit(loss: Any, factor: float, shards: Any) -> None:
    """The control: near misses of the mistakes."""
    found = _found(_program(loss, factor), *shards)
    assert isinstance(found, NoCulprit)
    assert "no operation was found" in found.why


def test_a_mean_of_parts_is_the_reduction_s_line() -> None:
    """What only the run does can be the culprit too."""
    found = _culprit(_program(_sum, factor=0.5), *_EVEN)
    assert (found.line, found.op, found.kind) == (9, "CollectiveReduceV2", NO_SUM.code)
    assert "not their sum" in found.relation


@pytest.mark.parametrize(("factor", "kind"), [(1.0, TWICE.code), (0.5, None)])
def test_what_is_the_same_in_all_replicas_is_not_added_up(factor: float, kind: str | None) -> None:
    """The sum's line is named; a mean changes nothing."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        penalty = steps.each("L2Loss", 5, lambda w: np.float32((w**2).sum()), w)
        steps.assign(10, "w", steps.summed(9, penalty, factor))

    found = _found(program, *_EVEN)
    assert getattr(found, "kind", None) == kind
    assert kind is None or (isinstance(found, Culprit) and found.line == 9)


def test_a_report_that_is_a_mean_of_parts_is_its_reduction_s_line() -> None:
    """Training is right, and only the number that was reported is wrong."""

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        total = steps.summed(12, steps.each("Sum", 11, lambda x: np.float32(x.sum()), steps.batch), 0.5)
        steps.called(13, total[0])

    run, reference = watched(program, _X, *_EVEN)
    assert isinstance(find_culprit([run], reference, []), NoCulprit)
    reported = run.values[-1].array
    found = find_culprit([run], reference, [], [WrongReport(reported)])
    assert isinstance(found, Culprit)
    assert found.line == 12


@pytest.mark.parametrize(("off", "known"), [(1e-6, True), (1e-2, False)])
def test_a_report_is_known_again_though_its_last_bits_are_others(off: float, known: bool) -> None:
    """A large model computes in several threads, which take turns as they like."""

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        total = steps.summed(12, steps.each("Mean", 11, lambda x: np.float32(x.mean()), steps.batch), 0.7)
        steps.called(13, total[0])

    run, reference = watched(program, _X, *_EVEN)
    reported = Array.of(run.values[-1].array.numpy() * np.float32(1 + off))
    assert isinstance(find_culprit([run], reference, [], [WrongReport(reported)]), Culprit) == known


def test_what_one_replica_has_of_a_report_is_no_operation_s_fault() -> None:
    """The report itself is: of parts, the first."""

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        steps.each("Mean", 11, lambda x: np.float32(x.mean()), steps.batch)

    run, reference = watched(program, _X, *_EVEN)
    first = run.values[-2].array
    assert isinstance(find_culprit([run], reference, [], [WrongReport(first)]), NoCulprit)
    assert isinstance(find_culprit([run], reference, [], [WrongReport(first, whole=False)]), Culprit)


@pytest.mark.parametrize(("lines", "named"), [((12,), 12), ((12, 13), None), ((12, 12), 12), ((), None)])
def test_the_line_that_takes_replicas_apart_is_named(lines: tuple[int, ...], named: int | None) -> None:
    """Where what was reported is one replica's, and one line took it from the others."""
    means: list[int] = []

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        parts = steps.each("Mean", 11, lambda x: np.float32(x.mean()), steps.batch)
        means[:] = parts if len(parts) == 2 else means

    run, reference = watched(program, _X, *_EVEN)
    frames = tuple(Frame("train.py", line, "report", own=True) for line in lines)
    apart = tuple(TakenApart(len(run.frames) + number, tuple(means)) for number in range(len(lines)))
    told = msgspec.structs.replace(run, frames=(*run.frames, *frames), taken_apart=apart)
    found = find_culprit([told], reference, [], [WrongReport(run.values[-2].array)])
    assert found.kind == "reported_by_one_replica"
    assert (found.line if isinstance(found, Culprit) else None) == named


def test_a_report_that_is_a_mean_of_one_replica_is_no_operation_s_fault() -> None:
    """Also where the replicas' means are in no relation to the reference's, because their shares are uneven."""

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        steps.each("Mean", 11, lambda x: np.float32(x.mean()), steps.batch)

    run, reference = watched(program, _X, _X[:3], _X[3:])
    found = find_culprit([run], reference, [], [WrongReport(run.values[-2].array)])
    assert isinstance(found, NoCulprit)
    assert "what one replica has" in found.why


def test_of_a_run_on_other_machines_no_line_is_named_that_what_was_wrong_there_does_not_come_from() -> None:
    """What is watched is a run on this machine; a line of it is only named where that was wrong in the same way."""
    run, reference = watched(_program(_mean), _X, *_EVEN)
    same, another = run.values[-1].array, Array.of(3 * run.values[-1].array.numpy())
    for reported, there in ((same, True), (same, False), (another, False)):
        assert isinstance(find_culprit([run], reference, [], [WrongReport(reported)], elsewhere=there), Culprit)
    found = find_culprit([run], reference, [], [WrongReport(another)], elsewhere=True)
    assert isinstance(found, NoCulprit)
    assert "that run was on this machine" in found.why
    right = _found(_program(_sum), *_EVEN, elsewhere=True)
    assert isinstance(right, NoCulprit)
    assert "and gives what is wrong; that run was on this machine" in right.why


def test_a_forgotten_reduction_is_the_line_that_assigns() -> None:
    """Parts that become a variable as they are."""
    found = _culprit(_program(_sum, reduced=False), *_EVEN)
    assert found.line == 10
    assert "have not been added up" in found.relation


def test_what_replicas_keep_for_themselves_is_wrong_only_where_something_is() -> None:
    """The variance of a layer whose mean is used: each replica has its own, and nobody reads it."""

    def program(steps: Steps) -> None:
        _program(_sum)(steps)
        own = steps.each("Variance", 11, lambda x: x.var(axis=0), steps.batch)
        steps.assign(12, "variance", own, kind="on_read", aggregation="MEAN")

    found = _culprit(program, *_EVEN)
    assert found.line == 11
    assert isinstance(_found(program, *_EVEN, consistent=True), NoCulprit)


def test_gradients_of_rows_are_no_examples() -> None:
    """Twice as large as one device's, from an operation that nothing of the reference is known to be."""

    def program(steps: Steps) -> None:
        _program(_mean)(steps)
        scaled = functools.partial(np.multiply, np.float32(steps.replicas))
        rows = steps.each("Mul", 20 + steps.replicas, scaled, steps.batch, name="gradient_tape/Mul")
        steps.each("Neg", 30, np.negative, rows)

    assert _culprit(program, *_EVEN).line == 4


def test_what_replicas_keep_for_themselves_is_blamed_last() -> None:
    """Gradients of each, which are put together later, and then wrongly."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        parts = steps.each("Sum", 4, lambda r: np.float32(r.sum() / 8), rows)
        steps.assign(5, "total", parts, kind="on_read", aggregation="ONLY_FIRST_REPLICA")
        larger = steps.each("Mul", 6, lambda p: p * np.float32(steps.replicas), parts)
        steps.assign(10, "w", steps.summed(9, larger))

    assert _culprit(program, *_EVEN).line == 6


def test_what_is_cast_has_the_precision_of_what_it_was_cast_from() -> None:
    """Parts in 16 bits add up to what is rounded otherwise; the reduction that averages them is to blame."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        half = steps.each("Sum", 4, lambda r: np.float16(r.sum() / 8), rows)
        steps.assign(10, "w", steps.summed(9, steps.each("Cast", 5, np.float32, half), 0.5))

    found = _culprit(program, *_EVEN)
    assert found.line == 9


@pytest.mark.parametrize(
    ("loss", "factor", "line", "said"),
    [
        (_mean, 1.0, 4, "the mean of the two is the reference's value"),
        (_sum, 0.5, 9, "not their sum"),
        (_sum, 1.0, None, ""),
    ],
)
def test_what_is_read_after_the_step_has_changed_it_does_not_begin_otherwise(
    loss: Any, factor: float, line: int | None, said: str
) -> None:
    """Of an average of weights, which is in no relation, the line is that of the multiple by which they changed."""

    def program(steps: Steps) -> None:
        begun = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, begun)
        change = steps.summed(9, loss(steps, rows, begun), factor)
        steps.assign(10, "w", change)
        after = steps.read(11, "w", [_W - steps.value(each) for each in change])
        steps.assign(12, "average", steps.each("Mul", 12, lambda w: np.float32(0.1) * w, after))

    found = _found(program, *_EVEN)
    assert (found.line if isinstance(found, Culprit) else None) == line, found
    assert said in getattr(found, "relation", "")


@pytest.mark.parametrize("step", [1, 2])
def test_what_a_step_began_with_sends_to_the_step_before(step: int) -> None:
    """Or, at the first step, to the line that made the variable."""

    def program(steps: Steps) -> None:
        own = _W if len(steps.batch) == 1 else _W + 1
        w = steps.read(2, "w", [own] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        steps.assign(10, "w", steps.summed(9, _sum(steps, rows, w)))

    found = _found(program, *_EVEN, step=step)
    if step > 1:
        assert isinstance(found, NoCulprit)
        assert found.earlier
        assert "'w' was wrong already" in found.why
    else:
        assert isinstance(found, Culprit)
        assert "begins with another value" in found.relation


def test_a_branch_that_one_replica_takes_is_the_line_in_it() -> None:
    """What is added up is right or wrong by which replica went where; the sum itself is what it should be."""

    def program(steps: Steps, everyone: bool = False) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        gradient = _sum(steps, steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w), w)
        taking = len(gradient) if everyone else 1
        gradient[:taking] = steps.each("Mul", 6, lambda g: np.float32(0.1) * g, gradient[:taking])
        steps.assign(10, "w", steps.summed(9, gradient))

    found = _culprit(program, *_EVEN)
    assert found.line == 6
    assert found.kind == BRANCH.code
    assert "only replica 0 came here" in found.relation
    alike = _found(functools.partial(program, everyone=True), *_EVEN)
    assert isinstance(alike, NoCulprit)


def test_a_gradient_s_factor_is_the_line_that_is_differentiated() -> None:
    """A loss function of the program's own divides, and a library, which divides too, asks for the gradient."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        divided = steps.each("RealDiv", 4, lambda r: r / np.float32(steps.replicas), rows, name="loss/truediv")
        steps.each("Sum", 5, lambda r: np.float32(r.sum()), divided, name="loss/Sum")
        ones = steps.each("Tile", 8, np.ones_like, rows, name="gradient_tape/loss/Tile")
        by_row = steps.each("RealDiv", 8, lambda g: g / np.float32(steps.replicas), ones, name=_DIVIDED)
        total = steps.each("Sum", 8, lambda g: np.float32(g.sum()), by_row, name="gradient_tape/loss/Sum")
        steps.assign(10, "w", steps.summed(9, total))

    found = _culprit(program, *_EVEN)
    assert (found.line, found.op) == (4, "RealDiv")


def test_a_gradient_in_the_scope_of_another_is_not_taken_for_its() -> None:
    """`Mean` opens no scope: its gradient, which divides, bears the name of whatever else divides there."""

    def program(steps: Steps, mean: str) -> None:
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        steps.each("RealDiv", 4, lambda r: r / np.float32(steps.replicas), rows, name="truediv")
        ones = steps.each("Tile", 8, np.ones_like, rows, name="gradient_tape/Tile")
        by_row = steps.each("RealDiv", 8, lambda g: g / np.float32(steps.replicas), ones, name=mean)
        total = steps.each("Sum", 8, lambda g: np.float32(g.sum()), by_row, name="gradient_tape/Sum")
        steps.assign(10, "w", steps.summed(9, total))

    for mean, line in (("gradient_tape/truediv", 8), ("gradient_tape/truediv/RealDiv", 4)):
        assert _culprit(functools.partial(program, mean=mean), *_EVEN).line == line


def test_a_mean_that_a_right_regularizer_was_added_to_is_the_line_of_its_gradient() -> None:
    """The loss is in no relation to the reference's, and nothing in the gradient's name tells the operation."""

    def program(steps: Steps, mean: bool = True) -> None:
        count = np.float32(4 if mean and steps.replicas > 1 else 8)
        w = steps.read(2, "w", [_W] * steps.replicas)
        rows = steps.each("MatMul", 3, lambda x, w: x @ w, steps.batch, w)
        loss = steps.each("Mean", 4, lambda r: np.float32(r.sum()) / count, rows)
        penalty = steps.each("L2Loss", 5, lambda w: np.float32((w**2).sum() / steps.replicas), w)
        steps.targets += steps.each("AddV2", 6, lambda a, b: a + b, loss, penalty)
        ones = steps.each("Tile", 8, np.ones_like, rows, name="gradient_tape/Tile")
        by_row = steps.each("RealDiv", 8, lambda g: g / count, ones, name="gradient_tape/truediv")
        total = steps.each("Sum", 8, lambda g, r: np.float32((g * r).sum()), by_row, rows, name="gradient_tape/Sum")
        steps.assign(10, "w", steps.summed(9, total))

    found = _culprit(program, *_EVEN)
    assert (found.line, found.op) == (4, "Mean")
    right = _found(functools.partial(program, mean=False), *_EVEN)
    assert isinstance(right, NoCulprit)


def test_other_examples_are_no_line_s_fault() -> None:
    """The ledger is who explains these."""
    found = _found(_program(_sum), _X[:4], _X[:4])
    assert isinstance(found, NoCulprit)
    assert "what the replicas were given" in found.why


def test_more_or_fewer_examples_are_no_line_s_fault() -> None:
    """Each replica has a global batch, or some are lost; what each has whole is no example."""
    for given in ((_X, _X[::-1]), (_X[:3], _X[3:7])):
        run, reference = watched(_program(_sum), _X, *given)
        found = find_culprit([run], reference, [])
        assert isinstance(found, NoCulprit)
        assert "what the replicas were given" in found.why
    assert isinstance(_found(_program(_sum), _X, _X), Culprit)


def test_examples_in_another_order_are_the_same_examples() -> None:
    """As datasets are sharded by elements: every other example goes to the other worker."""
    found = _culprit(_program(_mean), _X[0::2], _X[1::2])
    assert found.line == 4
    assert found.inputs == ("MatMul of train.py:3 is split by examples (right)",)
    assert isinstance(_found(_program(_sum), _X[0::2], _X[1::2]), NoCulprit)


def test_a_saved_verdict_knows_its_culprit() -> None:
    """`lockstep report` judges a saved run again, and shows what was found by runs that were not saved."""
    culprit = _culprit(_program(_mean), *_EVEN)
    bare = Verdict("train.py:train", "mirrored-2", ())
    told = replace(bare, looked=Looked(culprit, None, 3.5))
    saved = json.loads(json.dumps(told.to_json()))
    assert saved["culprit"]["line"] == 4
    nothing = Reference(RunTrace(()), ())
    assert with_saved_findings(bare, saved, nothing).looked == told.looked
    assert with_saved_findings(bare, json.loads(json.dumps(bare.to_json())), nothing).looked is None


def test_the_page_shows_it_and_keeps_it_text() -> None:
    """A failing cell opens with the line, what happened there and what came in; markup in a program stays text."""
    culprit = _culprit(_program(_mean), *_EVEN)
    named = replace(culprit, source="loss = mean('<script>')")
    told = replace(Verdict("train.py:train", "mirrored-2", ()), looked=Looked(named, None, 3.5)).to_json()
    page = matrix_page(Matrix(cells=[Cell("row", "mirrored-2", "FAIL", verdicts=(told,))]))
    assert f"culprit: {culprit.where}  loss = mean(&#39;&lt;script&gt;&#39;)" in page
    assert "the mean of the two is the reference" in page
    bare = Verdict("train.py:train", "mirrored-2", ()).to_json()
    assert "culprit:" not in matrix_page(Matrix(cells=[Cell("row", "mirrored-2", "FAIL", verdicts=(bare,))]))


def test_a_verdict_stands_whatever_is_wrong_with_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect in here costs the culprit, with a warning."""

    def failing(*args: Any, **options: Any) -> Culprit:
        raise IndexError("of nothing")

    monkeypatch.setattr(culprits, "find_culprit", failing)
    nothing = WatchedRuns((), None, ())  # type: ignore[arg-type]
    monkeypatch.setattr(culprits, "watch_step", lambda *args, **options: nothing)
    monkeypatch.setattr(culprits, "read_parts", lambda directory: Parts(RunTrace((_client(),))))
    reference = Reference(RunTrace((_client(),)), ())
    bare = Verdict("train.py:train", "mirrored-2", ())
    program = Program("train.py:train", b"", "")
    with pytest.warns(RuntimeWarning, match="of nothing"):
        told = with_culprit(bare, program, strategy_case("mirrored-2"), Path(), reference, seed=1, timeout=1.0)
    assert told.culprit is None
    assert told.looked is not None
    assert told.looked.why_not == "looking for it failed: IndexError"


def _client() -> ClientTrace:
    return ClientTrace(Header("local:0", 0, "default", 1, 1, 1, 1), (Step(1, 0.0),))
