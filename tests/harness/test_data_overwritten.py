"""The rule about data that was written over, and what it is told by; the real thing: scenarios/test_lent_arrays.py."""

from __future__ import annotations

import msgspec
import pytest

from harness.evidence.counters import Counters
from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import overwritten
from harness.judging.explain import explain
from harness.judging.laws import Case
from harness.judging.tolerance import DerivedTolerance
from harness.subject.strategies import strategy_case
from simulator import Cluster
from tests.harness._generator_arrays import lent
from tests.harness._traces import client, step

_SAID = "1 of 2 NumPy arrays that a generator lent to tf.data were written over"


@pytest.fixture(scope="module")
def said() -> dict[str, tuple[str, ...]]:
    """What is said of programs, all in one process."""
    with Cluster(strategy_case("mirrored-2").topology, timeout=60) as cluster:
        found: dict[str, tuple[str, ...]] = cluster.run(_in_a_task)["local:0"].value
    return found


def _in_a_task() -> dict[str, tuple[str, ...]]:
    return lent(strategy_case("mirrored-2").build())


def test_one_array_of_six_has_changed(said: dict[str, tuple[str, ...]]) -> None:
    """The second of three batches, whichever epoch lent it first."""
    (text,) = said["changed"]
    assert text.startswith("1 of 6 NumPy arrays that a generator lent to tf.data were written over")
    assert text.endswith("one of shape (2, 2), float32")


@pytest.mark.parametrize("program", ["kept", "gone", "many"])
def test_what_is_not_lent_or_not_there_may_change(said: dict[str, tuple[str, ...]], program: str) -> None:
    """Copies, arrays that live no longer than their batch, and more than are remembered."""
    assert said[program] == ()


def _trace(*losses: float, overwritten: tuple[str, ...] = ()) -> RunTrace:
    steps = [step(number, loss=loss) for number, loss in enumerate(losses, 1)]
    return RunTrace((msgspec.structs.replace(client(*steps), counters=Counters(overwritten=overwritten)),))


def _rule(run: RunTrace, reference: RunTrace) -> str | None:
    found = explain(Case(run, reference, DerivedTolerance(reference, [reference])))
    return None if found is None else found.rule


def test_data_that_was_written_over_is_named() -> None:
    """Where the first step is right."""
    assert _rule(_trace(1.0, 2.5, overwritten=(_SAID,)), _trace(1.0, 2.0)) == "data_overwritten"


@pytest.mark.parametrize(
    ("run", "reference"),
    [
        (_trace(1.5, 2.5, overwritten=(_SAID,)), _trace(1.0, 2.0)),
        (_trace(1.0, 2.5, overwritten=(_SAID,)), _trace(1.0, 2.0, overwritten=(_SAID,))),
        (_trace(1.0, 2.5), _trace(1.0, 2.0)),
    ],
    ids=["wrong from the first step on", "by the program itself", "not at all"],
)
def test_other_mistakes_are_not_named_so(run: RunTrace, reference: RunTrace) -> None:
    """The negative control."""
    assert _rule(run, reference) != "data_overwritten"


def test_it_is_said_of_a_consistent_run_too() -> None:
    """One epoch may be right, and the next one not; once, however many tasks saw it."""
    run = _trace(1.0, overwritten=(_SAID,))
    assert overwritten([_trace(1.0), RunTrace(run.clients * 2)]) == (_SAID,)
    assert overwritten([run, run]) == ()
