"""A proof for a verdict: when it begins, that it fails none, and that it tries no batch where none can refute."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import proofs, verify
from harness.proofs import WaitForProof, proved
from harness.relations import Proof
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import DeadlineExceeded, LockstepError


class _Graphs:
    seconds = 2.0


def _train(strategy: Any, record: Any) -> None:
    """Counts."""
    record.step(loss=1.0)


def _proof(refutes: bool) -> Proof:
    with proved(Program.of(_train), strategy_case("mirrored-2"), seed=1, timeout=9.0) as proof:
        return proof(9.0, refutes=refutes)


@pytest.mark.parametrize("refutes", [True, False])
def test_batches_are_tried_where_one_may_refute(monkeypatch: pytest.MonkeyPatch, refutes: bool) -> None:
    """Where replicas rightly have something for themselves each batch would differ."""
    tried = []

    def refuted(proof: Proof, *_: Any, **__: Any) -> Proof:
        tried.append(proof)
        return proof

    monkeypatch.setattr(proofs, "tracing", lambda *_, **__: contextlib.nullcontext(lambda seconds: _Graphs))
    monkeypatch.setattr(proofs, "inferred", lambda graphs, **named: Proof("open", "p", "s"))
    monkeypatch.setattr(proofs, "refuted", refuted)
    found = _proof(refutes)
    assert (found.status, found.tracing_seconds) == ("open", 2.0)
    assert len(tried) == refutes


def test_a_proof_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open then, whatever follows from the graph, since a batch may contradict it."""

    def over(*_: Any, deadline: float, **__: Any) -> Proof:
        assert deadline - time.monotonic() < 9.0
        raise DeadlineExceeded("batches", 0.0)

    monkeypatch.setattr(proofs, "tracing", lambda *_, **__: contextlib.nullcontext(lambda seconds: _Graphs))
    monkeypatch.setattr(proofs, "inferred", lambda graphs, **named: Proof("proved", "p", "s"))
    monkeypatch.setattr(proofs, "confirmed", over)
    found = _proof(refutes=True)
    assert (found.status, len(found.reasons)) == ("open", 1)
    assert "9 s" in found.reasons[0]


def _failing(*, at_once: bool) -> Any:
    @contextlib.contextmanager
    def tracing(*_: Any, **__: Any) -> Iterator[Callable[[float], Any]]:
        if at_once:
            raise LockstepError("no room\nfor it")

        def graphs(seconds: float) -> Any:
            raise LockstepError("no room\nfor it")

        yield graphs

    return tracing


@pytest.mark.parametrize("at_once", [True, False])
def test_what_goes_wrong_leaves_the_proof_open(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """When it begins as well as when it is waited for."""
    monkeypatch.setattr(proofs, "tracing", _failing(at_once=at_once))
    found = _proof(refutes=True)
    assert (found.status, found.reasons) == ("open", ("it could not be traced: no room",))


@pytest.mark.parametrize(("prove", "expected"), [(True, 120.0), (None, 30.0)])
def test_a_proof_that_nobody_asked_for_has_less_time(
    monkeypatch: pytest.MonkeyPatch, prove: bool | None, expected: float
) -> None:
    """It takes no longer than a person waits who wants a verdict."""
    given: list[float] = []

    def begun(*_: Any, **__: Any) -> Any:
        def proof(seconds: float, *, refutes: bool) -> Proof:
            given.append(seconds)
            return Proof("open", "p", "s")

        return contextlib.nullcontext(proof)

    monkeypatch.delenv(proofs.PROVE_VARIABLE)
    monkeypatch.setattr(sys.modules["harness.verify"], "proved", begun)
    verify(_train, "mirrored-2", prove=prove, explain=False)
    assert given == [expected]


@pytest.mark.parametrize("reads", [False, True])
def test_it_begins_beside_the_reference_unless_they_would_meet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reads: bool
) -> None:
    """In a file that the program reads after it has written it."""
    order: list[str] = []

    @contextlib.contextmanager
    def begun(*_: Any, **__: Any) -> Iterator[WaitForProof]:
        order.append("proof")
        yield lambda seconds, *, refutes: Proof("open", "p", "s")

    def train(strategy: Any, record: Any) -> None:
        file = tmp_path / str(strategy.num_replicas_in_sync)
        file.write_text("1.0")
        record.step(loss=float(file.read_text()) if reads else 1.0)

    module = sys.modules["harness.verify"]  # of which the package has the function
    monkeypatch.setattr(module, "proved", begun)
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr("harness.attempts.phase", order.append)
    monkeypatch.setattr(module, "phase", order.append)
    verify(train, "mirrored-2", prove=True, explain=False)
    followed = next(words for words in order if words not in ("running", "proof"))
    assert (order.index("proof") < order.index(followed)) is not reads
