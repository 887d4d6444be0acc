"""The tool that plants faults in watched trainings: what it counts as found."""

from __future__ import annotations

from typing import Any

import pytest

from tools.planted import table
from tools.planting.cases import KINDS, Case, cases
from tools.planting.running import judged_as


def _case(kind: str, step: int = 20) -> Case:
    return Case(f"{kind}-1", kind, "mirrored", step, 1, 24, 0, 50, 2048, 10)


def _line(step: int, replica: str | None = "local:0 replica 1", training: int = 0) -> dict[str, Any]:
    finding = {"text": "it differs", **({} if replica is None else {"replica": replica})}
    return {"training": training, "step": step, "outcome": "inconsistent", "findings": [finding]}


_OTHER = "local:0 replica 0 or local:0 replica 1"


@pytest.mark.parametrize(
    ("case", "lines", "told"),
    [
        (_case("gradient"), [_line(20)], (True, True, True)),
        (_case("gradient"), [_line(30)], (True, False, True)),
        (_case("gradient"), [_line(20, _OTHER)], (True, True, False)),
        (_case("gradient"), [], (False, False, False)),
        (_case("weight", 17), [_line(18), _line(20)], (True, True, True)),
        (_case("rate", 13), [_line(20, None)], (True, True, True)),
        (_case("rate", 13), [_line(20)], (True, True, False)),
        (_case("statistics", 13), [_line(1, None, 1)], (True, True, True)),
        (_case("file"), [{"training": 0, "step": 20, "outcome": "abstained", "why": "damaged"}], (True, True, True)),
        (_case("file"), [_line(20)], (False, False, False)),
        (_case("healthy", 0), [], (False, True, True)),
    ],
)
def test_what_counts_as_found(case: Case, lines: list[dict[str, Any]], told: tuple[bool, bool, bool]) -> None:
    """The first finding tells the step, and all of them together the replica."""
    found = judged_as(case, lines, (1.0, 1.0))
    assert (found.found, found.step, found.replica) == told


def test_each_kind_is_planted_on_both_replicas() -> None:
    """The same each time, with as many healthy trainings."""
    every = cases()
    assert every == cases()
    planted = [case for case in every if case.kind != "healthy"]
    of_three = [case for case in planted if case.replicas == 3]
    assert (len(planted), len(of_three), len(every)) == (78, 18, 138)
    assert {case.kind for case in planted} == set(KINDS)
    assert {case.replica for case in planted if case.replicas == 2} == {0, 1}
    assert {case.replica for case in of_three} == {0, 1, 2}
    assert {case.kind for case in of_three} == {"weight", "reduction"}
    assert all(case.step < case.steps for case in planted)


def test_the_table_counts_runs() -> None:
    """Of a healthy training only what was found."""
    results = [judged_as(_case(kind, 20), [_line(20)], (1.0, 1.0)) for kind in ("gradient", "healthy")]
    lines = table(results).splitlines()
    assert "| a bit of a gradient, in a judged step | 1 | 1 | 1 | 1 |" in lines
    assert "| a bit of a weight, after a step, of 3 replicas | 0 | 0 | 0 | 0 |" in lines
    assert lines[-1] == "| nothing, in 1,000 steps | 1 | 1 |  |  |"
