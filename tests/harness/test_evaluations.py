"""What evaluations give: compared where it is one number for all, and not one device's times the replicas."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from harness.evidence.trace import Array, ClientTrace, Evaluated, Header, RunTrace, Value
from harness.judging.laws.evaluations_match_reference import LAW
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import DerivedTolerance

_RIGHT = 0.75


def _client(*numbers: float, task: str = "local:0", replicas: int = 1, apart: str | None = None) -> ClientTrace:
    """One that was given these numbers by evaluations after its steps, one each."""
    header = Header(task, 0, "mirrored-2", replicas, replicas, 1, 20, follows=replicas == 1)
    evaluated = tuple(
        Evaluated(after, 0, 0.0, "measured", (Value("result", (Array.of(number),)),), apart)
        for after, number in enumerate(numbers, start=1)
    )
    return ClientTrace(header, evaluated=evaluated)


def _case(*run: ClientTrace, reference: ClientTrace) -> Case:
    truth = RunTrace((reference,))
    clients = tuple(
        msgspec.structs.replace(each, header=msgspec.structs.replace(each.header, replicas=2)) for each in run
    )
    return Case(RunTrace(clients), truth, DerivedTolerance(truth, []), follows=True)


@pytest.mark.parametrize(
    ("number", "status", "compared"),
    [
        (_RIGHT, "held", 2),
        (_RIGHT * 1.01, "broken", 2),
        (_RIGHT * 1.9, "broken", 2),
        (_RIGHT * 2, "broken", 2),
        (_RIGHT / 2, "broken", 2),
    ],
)
def test_a_number_is_that_of_one_device(number: float, status: str, compared: int) -> None:
    """Of two evaluations the second one may be wrong."""
    found = LAW.judge(_case(_client(0.5, number, replicas=2), reference=_client(0.5, _RIGHT)))
    assert (found.status, found.compared) == (status, compared)
    assert [finding.step for finding in found.findings] == ([2] if status == "broken" else [])


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_what_a_program_scales_each_time_is_not_compared(factor: float) -> None:
    """It may do so with what it was given back; one that is scaled once is wrong."""
    run = _client(0.5 * factor, _RIGHT * factor, replicas=2)
    found = LAW.judge(_case(run, reference=_client(0.5, _RIGHT)))
    assert (found.status, "scales" in found.reason) == ("not_judged", True)


def test_parts_of_workers_are_no_numbers_for_all() -> None:
    """Each has its own of the second one; of the first one both have been given the same, and it is wrong."""
    workers = [_client(0.6, number, task=f"worker:{k}") for k, number in enumerate((0.1, 0.2))]
    found = LAW.judge(_case(*workers, reference=_client(0.5, _RIGHT)))
    assert (found.status, found.compared) == ("broken", 1)


def test_what_one_replica_cannot_compute_is_not_judged() -> None:
    """With the reason; nor is it asked of a reference that follows nothing, or that has no evaluations."""
    case = _case(_client(0.1), reference=_client(_RIGHT, apart="each replica has its own moving_mean"))
    found = LAW.judge(case)
    assert (found.status, "its own moving_mean" in found.reason) == ("not_judged", True)
    assert LAW.concerns(case)
    assert not LAW.concerns(replace(case, follows=False))
    assert not LAW.concerns(_case(_client(0.1), reference=_client()))
