"""Which batches are tried to refute a step, and which of them refute it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.step_graph import Argument
from harness.evidence.trace import Array
from harness.recording.tracing import BatchOutcome
from harness.refuting import batches, confirmed, counterexamples, refuted
from harness.relations import EVEN, Proof, proof_of
from harness.relations.proof import Under
from harness.running.reference_request import FIRST_SEEDS, MORE_SEEDS
from harness.running.step_graphs import StepGraphs, TrialOutcomes
from harness.subject.strategies import strategy_case
from simulator import DeadlineExceeded, LockstepError
from tests.harness.test_proving import _step


def _rows(traced: Any, each: int) -> Any:
    """With as many rows for each replica."""
    arguments = [
        msgspec.structs.replace(argument, rows=tuple(range(each * (argument.replica or 0), each * (at // 2 + 1))))
        if argument.kind == "example"
        else msgspec.structs.replace(argument, trainable=True)
        for at, argument in enumerate(traced.arguments)
    ]
    return msgspec.structs.replace(traced, arguments=tuple(arguments))


def _outcome(after: float) -> BatchOutcome:
    return BatchOutcome({"w": (Array.of(np.zeros(1)),)}, {"w": (Array.of(np.asarray([after])),)})


_Noise = Callable[[int], float | None]
"""By the seed what one device makes of a batch with noise; None where that fails."""


def _carried_out(monkeypatch: pytest.MonkeyPatch, carried_out: Any, noise: _Noise = lambda _: 1.0) -> list[int]:
    """Batches are carried out like this, and with such noise; returns the seeds of that."""
    seeds: list[int] = []

    def noisy(program: Any, whole: Any, replicas: int, noisy_seeds: Any, **_: Any) -> list[tuple[BatchOutcome, ...]]:
        seeds.extend(noisy_seeds)
        found = [
            BatchOutcome(failed="failed") if (after := noise(each)) is None else _outcome(after) for each in noisy_seeds
        ]
        return [(each,) * len(whole) for each in found]

    monkeypatch.setattr(counterexamples, "try_batches", carried_out)
    monkeypatch.setattr(counterexamples, "noisy_outcomes", noisy)
    return seeds


def _refuted(proof: Proof, run: Any, reference: Any, seconds: float = 60.0) -> Proof:
    """What is left of a proof when batches have been tried for so long at most."""
    program: Any = None
    graphs, case = StepGraphs((run,), reference), strategy_case("mirrored-2")
    return refuted(proof, graphs, program, case, seed=0, deadline=time.monotonic() + seconds)


def _result(
    monkeypatch: pytest.MonkeyPatch, lengths: tuple[tuple[int, ...], ...], wrong: set[str]
) -> tuple[list[tuple[int, ...]], Any]:
    """The shards that are tried, and the proof, where those batches are wrong that are `even` or `uneven`."""
    run = msgspec.structs.replace(_rows(_step(2, divide=2), 4), lengths=lengths)
    reference = _rows(_step(1, divide=4), 8)
    tried: list[tuple[int, ...]] = []

    def carried_out(program: Any, case: Any, shares: Any, whole: Any, **_: Any) -> TrialOutcomes:
        lengths = [tuple(len(rows) for rows in batch.rows) for batch in shares[0]]
        tried.extend(each for each, batch in zip(lengths, shares[0], strict=True) if not batch.zeros)
        kinds = ["even" if len(set(each)) == 1 else "uneven" for each in lengths]
        found = tuple(_outcome(2.0 if kind in wrong else 1.0) for kind in kinds)
        return TrialOutcomes((found,), tuple(_outcome(1.0) for _ in kinds))

    _carried_out(monkeypatch, carried_out)
    proof = proof_of([run], reference, program="p", strategy="s")
    assert proof.status == "open"
    return tried, _refuted(proof, run, reference)


_EVEN: list[tuple[int, ...]] = [(1, 1), (2, 2), (4, 4)]


def test_uneven_shards_are_not_tried_where_the_data_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is right for its own data is not refuted by other data."""
    tried, proof = _result(monkeypatch, ((4, 4),), {"uneven"})
    assert tried == _EVEN
    assert proof.status == "open"


def test_uneven_shards_are_tried_last_where_the_data_has_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """They refute what is right for even ones."""
    tried, proof = _result(monkeypatch, ((4, 4), (3, 2)), {"uneven"})
    assert tried == [*_EVEN, (2, 1), (4, 2)]
    assert proof.status == "refuted"
    assert proof.culprit.counterexample.shards == (2, 1)


def test_even_shards_refute_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smallest batch is told; where nothing differs nothing is refuted."""
    _, proof = _result(monkeypatch, ((4, 4), (3, 2)), {"even", "uneven"})
    assert proof.culprit.counterexample.shards == (1, 1)
    _, proof = _result(monkeypatch, ((4, 4), (3, 2)), set())
    assert proof.status == "open"


@pytest.mark.parametrize(
    ("real", "noise", "status"),
    [
        (2.0, 1.0, "refuted"),
        (1.0, 1.0, "open"),
        (2.0, 1.2, "open"),  # an accident of a few draws may be as large
    ],
)
def test_what_is_wrong_of_the_programs_own_number_of_rows_is_wrong(
    monkeypatch: pytest.MonkeyPatch, real: float, noise: float, status: str
) -> None:
    """Of fewer rows all may be right, as where each replica leaves out all but its six hardest examples."""
    run, reference = _rows(_step(2, divide=2), 6), _rows(_step(1, divide=4), 12)

    def carried_out(program: Any, case: Any, shares: Any, whole: Any, **_: Any) -> TrialOutcomes:
        after = [real if len(batch.rows[0]) == 6 and not batch.zeros else 1.0 for batch in shares[0]]
        return TrialOutcomes((tuple(map(_outcome, after)),), (_outcome(1.0),) * len(after))

    _carried_out(monkeypatch, carried_out, lambda _: noise)
    proof = proof_of([run], reference, program="p", strategy="s")
    found = _refuted(proof, run, reference)
    assert found.status == status
    assert (found.culprit is not None and found.culprit.counterexample is not None) == (status == "refuted")


@pytest.mark.parametrize(
    ("zeros", "real", "status"),
    [
        (2.0, 1.005, "refuted"),  # too little to be told among the examples, and the same
        (2.0, 0.995, "open"),  # another thing than what the program's own batch has
        (2.0, 1.0, "open"),
        (1.0, 1.005, "open"),
    ],
)
def test_a_batch_of_zeros_shows_what_examples_hide(
    monkeypatch: pytest.MonkeyPatch, zeros: float, real: float, status: str
) -> None:
    """What is added whatever the examples are is all of what zeros add; it has to be what the real ones hide."""
    run, reference = _rows(_step(2, divide=2), 4), _rows(_step(1, divide=4), 8)

    def carried_out(program: Any, case: Any, shares: Any, whole: Any, **_: Any) -> TrialOutcomes:
        after = [zeros if batch.zeros else real for batch in shares[0]]
        return TrialOutcomes((tuple(map(_outcome, after)),), (_outcome(1.0),) * len(after))

    _carried_out(monkeypatch, carried_out)
    proof = proof_of([run], reference, program="p", strategy="s")
    found = _refuted(proof, run, reference)
    assert found.status == status
    if status == "refuted":
        assert found.culprit is not None
        assert found.culprit.counterexample is not None
        assert found.culprit.counterexample.text.startswith("with 1+1 examples, with zeros")


@pytest.mark.parametrize(("after", "told"), [(math.nan, True), (None, True), (1.0, False)])
def test_zeros_that_say_nothing_are_told(monkeypatch: pytest.MonkeyPatch, after: float | None, told: bool) -> None:
    """Whether the step fails for them, or divides by them."""
    run, reference = _rows(_step(2, divide=2), 4), _rows(_step(1, divide=4), 8)
    of_zeros = BatchOutcome(failed="it fails") if after is None else _outcome(after)

    def carried_out(program: Any, case: Any, shares: Any, whole: Any, **_: Any) -> TrialOutcomes:
        found = tuple(of_zeros if batch.zeros else _outcome(1.0) for batch in shares[0])
        return TrialOutcomes((found,), found)

    _carried_out(monkeypatch, carried_out)
    proof = proof_of([run], reference, program="p", strategy="s")
    found = _refuted(proof, run, reference)
    assert found.status == "open"
    assert ("a batch of zeros" in str(found)) is told


def _confirmed(
    monkeypatch: pytest.MonkeyPatch,
    wrong: set[tuple[int, ...]],
    conditions: tuple[str, ...] = (),
    noise: _Noise = lambda _: 1.0,
) -> Any:
    """The proof of a step that was inferred to be right, where these batches are wrong, and what was tried."""
    run, reference = _rows(_step(2, divide=2), 8), _rows(_step(1, divide=4), 16)
    tried: list[Any] = []

    def carried_out(program: Any, case: Any, shares: Any, whole: Any, **_: Any) -> TrialOutcomes:
        tried.extend(shares[0])
        lengths = [tuple(len(rows) for rows in batch.rows) for batch in shares[0]]
        found = tuple(_outcome(2.0 if each in wrong else 1.0) for each in lengths)
        return TrialOutcomes((found,), tuple(_outcome(1.0) for _ in lengths))

    _carried_out(monkeypatch, carried_out, noise)
    under = tuple(Under(each, ()) for each in conditions)
    proof = Proof("conditional" if under else "proved", "p", "mirrored-2", conditions=under)
    program: Any = None
    case = strategy_case("mirrored-2")
    return confirmed(
        proof, StepGraphs((run,), reference), program, case, seed=0, deadline=time.monotonic() + 60.0
    ), tried


def test_what_is_proved_is_run_and_keeps_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """On even and uneven shards, the largest traced for just so many rows; a condition leaves uneven ones out."""
    proof, tried = _confirmed(monkeypatch, set())
    assert (proof.status, proof.tried) == ("proved", (*_EVEN, (2, 1), (4, 2)))
    assert [tuple(map(len, batch.rows)) for batch in tried if batch.anew] == [(4, 4), (4, 2)]
    proof, _ = _confirmed(monkeypatch, {(2, 1), (4, 2)}, (EVEN,))
    assert (proof.status, proof.tried) == ("conditional", tuple(_EVEN))


def test_a_batch_that_contradicts_refutes_unless_it_is_one_that_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its numbers; where as many rows as the program's own first batch has agree, it is open."""
    proof, _ = _confirmed(monkeypatch, {(4, 2)})
    assert proof.status == "refuted"
    assert proof.culprit.counterexample.shards == (4, 2)
    proof, _ = _confirmed(monkeypatch, {(4, 4)})
    assert proof.status == "open"
    assert "with 4+4 examples" in proof.reasons[0]


_FIRST, _ALL = list(FIRST_SEEDS), [*FIRST_SEEDS, *MORE_SEEDS]


@pytest.mark.parametrize(
    ("noise", "status", "seeds"),
    [
        (lambda seed: 1 + math.copysign(1e-6, seed), "refuted", _FIRST),  # 6e4 bounds
        (lambda seed: 1 + math.copysign(1e-5, seed), "refuted", _ALL),  # 6e3 bounds: it may be an accident
        (lambda seed: 1 + math.copysign(0.1, seed), "proved", _FIRST),  # 0.6 bounds: nothing but rounding
        (lambda seed: 1.1 if seed == MORE_SEEDS[-1] else 1.0 + 1e-5, "proved", _ALL),
        (lambda _: None, "open", _FIRST),
    ],
)
def test_what_rounding_does_refutes_nothing(
    monkeypatch: pytest.MonkeyPatch, noise: _Noise, status: str, seeds: list[int]
) -> None:
    """A batch counts by its bounds of rounding, as a step in numbers does; without any, nothing is known of it."""
    seen = list[int]()

    def noted(seed: int) -> float | None:
        seen.append(seed)
        return noise(seed)

    proof, _ = _confirmed(monkeypatch, {*_EVEN, (8, 8), (2, 1), (4, 2)}, noise=noted)
    assert proof.status == status
    assert seen == seeds


def test_a_small_batch_alone_contradicts_nothing_for_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two examples statistics may be nothing but rounding: the step is open, and neither refuted nor proved."""
    for wrong in list[set[tuple[int, ...]]](({(1, 1)}, {(2, 1)})):
        proof, _ = _confirmed(monkeypatch, wrong)
        assert proof.status == "open"
        assert "other batches do not say so" in proof.reasons[0]


def test_a_row_is_known_by_all_its_values() -> None:
    """Rows of which flags or labels are alike are not taken for each other: everybody tries the same batch."""
    flags, ids = (7, 7, 7, 7, 7, 7, 7, 7), tuple(range(8))
    run, reference = _step(2, divide=2), _step(1, divide=4)

    def given(replica: int | None, rows: slice) -> tuple[Argument, ...]:
        return tuple(
            Argument("example", name, replica, rows=values[rows]) for name, values in (("0", flags), ("1", ids))
        )

    run = msgspec.structs.replace(run, arguments=(*given(0, slice(4)), *given(1, slice(4, 8))), lengths=((4, 4),))
    reference = msgspec.structs.replace(reference, arguments=given(None, slice(8)))
    assert batches.rows_of(StepGraphs((run,), reference)) == {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)}
    other = msgspec.structs.replace(
        reference, arguments=(*given(None, slice(8))[:1], Argument("example", "1", rows=ids[::-1]))
    )
    assert batches.rows_of(StepGraphs((run,), other)) == {0: (7, 6, 5, 4), 1: (3, 2, 1, 0)}


def test_no_batch_is_tried_when_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at first, nor with noise; a batch that was cut off by it is no batch that cannot be carried out."""
    run, reference = _rows(_step(2, divide=2), 4), _rows(_step(1, divide=4), 8)
    proof = proof_of([run], reference, program="p", strategy="s")
    tried: list[float] = []

    def cut_off(*_: Any, timeout: float, **__: Any) -> TrialOutcomes:
        tried.append(timeout)
        monkeypatch.setattr("harness.refuting.counterexamples.time.monotonic", lambda: math.inf)
        raise LockstepError("took too long")

    _carried_out(monkeypatch, cut_off)
    for seconds in (-1.0, 60.0):
        with pytest.raises(DeadlineExceeded):
            _refuted(proof, run, reference, seconds)
    assert [round(each) for each in tried] == [60]
