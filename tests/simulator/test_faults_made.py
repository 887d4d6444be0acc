"""Faults made in Python: `Kill("worker:1", step=3)`, with the same checks as those that are read."""

from __future__ import annotations

from typing import Any

import pytest

import simulator.faults
from simulator import FaultPlan, UsageError
from simulator.faults import Crash, DiskFull, Fault, Kill, Partition, Slow, TaskFault, all_kinds


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (Kill("worker:1", step=3, restart="1s"), "kind=kill,task=worker:1,step=3,restart=1s"),
        (Kill(("worker:0", "worker:1"), step="2..4"), "kind=kill,task=worker:0+worker:1,step=2..4"),
        (
            Partition(src="worker:0", dst="ps", step=1, duration="2s"),
            "kind=partition,src=worker:0,dst=ps,step=1,duration=2s",
        ),
        (Slow("worker:*", factor=3.0, step=1), "kind=slow,task=worker:*,factor=3,step=1"),
    ],
)
def test_a_fault_made_in_python_is_the_one_that_is_read(made: Fault, text: str) -> None:
    """The same object, and so the same in a plan."""
    assert made == FaultPlan.parse_fault(text)
    assert FaultPlan(faults=(made,)) == FaultPlan(faults=(FaultPlan.parse_fault(text),))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Kill("worker:1"), "fault 1: a fault of kind kill needs exactly one trigger and has none"),
        (Kill(step=3), "fault 1: kill needs task="),
        (Kill("worker:1", step=-1), "step='-1' is not a count"),
        (Kill("worker:1", step=[3]), r"fault 1: kill: Expected `int \| str \| null`, got `array`"),
        (Kill("worker:1", step=object()), "fault 1: kill: "),
        (Kill("worker:1", phase="in_save", nth=0), "nth=0 is out of range"),
        (Partition(src="worker:0", step=1), "partition needs dst="),
        (Slow("worker:1", step=1), "slow needs either factor"),
        ("kind=kill,task=worker:1,step=3", r"fault 1 is 'kind=kill.*a plan has faults such as Kill"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_by_its_plan(fault: Any, message: str) -> None:
    """Python takes any value; the plan does not, and nothing has started."""
    with pytest.raises(UsageError, match=message):
        FaultPlan(faults=(fault,))


def test_every_kind_has_its_constructor_by_name() -> None:
    """All kinds are found without a list of them, and those of tasks take the task first."""
    found = [getattr(simulator.faults, kind.__name__) for kind in all_kinds().values()]
    assert found == list(all_kinds().values())
    assert {Crash, DiskFull, Kill} <= set(found)
    assert all(kind("ps:0").task == "ps:0" for kind in found if issubclass(kind, TaskFault))
    assert {"Kill", "FaultPlan"} <= set(dir(simulator.faults))
    with pytest.raises(AttributeError, match="no attribute 'Earthquake'"):
        _ = simulator.faults.Earthquake
