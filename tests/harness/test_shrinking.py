"""Shrinking: what is left is minimal, known outcomes are not run again, and k of n runs decide."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.disturbance import describe_fault
from harness.search import Acceptance, describe_plan
from harness.search.shrinking import Verdicts, minimal, shrink_plan, simpler_faults
from simulator import FaultPlan, Topology, UsageError

TOPOLOGY = Topology(worker=2)


def _plan(*faults: str) -> FaultPlan:
    return FaultPlan(faults=tuple(map(FaultPlan.parse_fault, faults))).expand(TOPOLOGY)


@given(st.integers(1, 24), st.data())
def test_what_is_left_is_exactly_what_is_needed(size: int, data: st.DataObject) -> None:
    """Where a failure needs some items together, they and no others are left, in their order."""
    needed = data.draw(st.sets(st.integers(0, size - 1), min_size=1))
    assert minimal(range(size), lambda part: needed <= set(part)) == tuple(sorted(needed))


@given(st.integers(2, 12), st.data())
def test_no_item_can_be_left_out(size: int, data: st.DataObject) -> None:
    """Also where smaller parts fail for other reasons or a larger one does not: the result fails, and is 1-minimal."""
    odd = data.draw(st.dictionaries(st.sets(st.integers(0, size - 1)).map(frozenset), st.booleans()))

    def fails(part: tuple[int, ...]) -> bool:
        return len(part) == size or odd.get(frozenset(part), 0 in part and 1 in part)

    left = minimal(range(size), fails)
    assert left
    assert fails(left)
    assert [part for k in range(len(left)) if (part := left[:k] + left[k + 1 :]) and fails(part)] == []


def test_order_is_a_part_of_the_failure() -> None:
    """Two items that fail in one order only are found, and stay in it."""

    def fails(part: tuple[str, ...]) -> bool:
        return "preempt" in part and "kill" in part[part.index("preempt") :]

    assert minimal(["kill", "pause", "preempt", "slow", "kill", "pause"], fails) == ("preempt", "kill")


def test_a_known_outcome_is_not_run_again() -> None:
    """Every candidate is run once, though the shrinking asks for some of them again."""
    runs: Counter[tuple[int, ...]] = Counter()

    def fails(part: tuple[int, ...]) -> bool:
        runs[part] += 1
        return {1, 6} <= set(part)

    verdicts: Verdicts[tuple[int, ...]] = Verdicts(fails, tuple)
    assert minimal(minimal(range(8), verdicts), verdicts) == (1, 6)
    assert set(runs.values()) == {1}
    assert verdicts.runs == sum(runs.values())


@pytest.mark.parametrize(
    ("outcomes", "accepted", "runs"),
    [("FF", True, 2), ("F.F", True, 3), (".FF", True, 3), ("..", False, 2), ("F..", False, 3)],
)
def test_k_of_n_runs_decide(outcomes: str, accepted: bool, runs: int) -> None:
    """With 2/3, two failing runs are enough and two others are; no run is made once the answer is certain."""
    left = iter(outcomes)
    verdicts = Verdicts[str](lambda _: next(left) == "F", str, Acceptance(2, 3))
    assert [verdicts("plan"), verdicts("plan")] == [accepted, accepted]
    assert verdicts.runs == runs
    assert verdicts.rate("plan") == (outcomes.count("F"), runs)


def test_a_run_made_elsewhere_counts() -> None:
    """The failure that the search has seen is one of the k."""
    verdicts = Verdicts[str](lambda _: True, str, Acceptance(2, 3))
    verdicts.note("plan", failed=True)
    assert verdicts("plan")
    assert verdicts.runs == 1


def test_without_time_nothing_more_is_run() -> None:
    """What is not known then counts as not failing, so that the plan stays as it is."""
    verdicts = Verdicts[tuple[int, ...]](lambda _: True, tuple, exhausted=lambda: True)
    assert minimal(range(4), verdicts) == (0, 1, 2, 3)
    assert verdicts.runs == 0


@pytest.mark.parametrize("text", ["2", "3/2", "0/1", "a/b", "1/-1"])
def test_an_acceptance_that_cannot_be_had_is_a_usage_error(text: str) -> None:
    """The message says how it is written."""
    with pytest.raises(UsageError, match="write K/N"):
        Acceptance.parse(text)


def test_a_plan_is_shrunk_in_its_faults_and_in_their_values() -> None:
    """Faults that do not matter go; what stays gets its simplest values and the earliest step that still fails."""
    plan = _plan(
        "kind=pause,task=worker:1,step=2,duration=12s",
        "kind=kill,task=worker:0+worker:1,step=7",
        "kind=crash,task=worker:0,step=9,how=segfault",
        "kind=slow,task=worker:0,step=1,per_step=20ms",
    )

    def fails(candidate: FaultPlan) -> bool:
        kills = [fault for fault in candidate.faults if fault.kind == "kill" and int(fault.step or 0) >= 3]
        crashes = [fault for fault in candidate.faults if fault.kind == "crash"]
        return any("worker:1" in describe_fault(kill) for kill in kills) and bool(crashes)

    assert fails(plan)
    left = shrink_plan(plan, fails).expand(TOPOLOGY)
    assert describe_plan(left) == "kill worker:1 step=3; crash worker:0 step=1"


def test_a_simpler_fault_still_makes_sense() -> None:
    """A key without which the fault would be refused is never taken away, nor is the step made later."""
    for text in (
        "kind=slow,task=worker:0,step=4,per_step=100ms",
        "kind=partition,src=worker:0,dst=worker:1,of=worker:0,step=4,mode=blackhole,duration=12s,one_way",
        "kind=flap,src=worker:0,dst=worker:1,of=worker:0,step=4,times=3",
        "kind=late_start,task=worker:1,duration=3s",
    ):
        plan = _plan(text)
        found = list(simpler_faults(plan.faults[0]))
        assert found
        for fault in found:
            again = FaultPlan(faults=(fault,)).expand(TOPOLOGY).faults[0]
            assert int(again.step or 0) <= int(plan.faults[0].step or 0)
