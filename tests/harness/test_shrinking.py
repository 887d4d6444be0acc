"""Shrinking: what is left is minimal, known outcomes are not run again, and k of n runs decide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.search import Acceptance, describe_plan
from harness.search.plan_strategy import Space, plans
from harness.search.profiles import choose_kinds, profile_of
from harness.search.shrinking import Verdicts, minimal, shrink_plan, simpler_faults
from simulator import FaultPlan, Topology, UsageError
from simulator.faults import (
    Crash,
    CrashLoop,
    Fault,
    Flap,
    Kill,
    LateStart,
    Oom,
    Partition,
    Pause,
    Slow,
    Stall,
    describe_fault,
)
from simulator.units import parse_size

TOPOLOGY = Topology(worker=2)


def _plan(*faults: Fault, topology: Topology = TOPOLOGY) -> FaultPlan:
    return FaultPlan(faults=faults).expand(topology)


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

    verdicts: Verdicts[tuple[int, ...]] = Verdicts(lambda part, _: [fails(part)], tuple)
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
    verdicts = Verdicts[str](lambda *_: [next(left) == "F"], str, Acceptance(2, 3))
    assert [verdicts("plan"), verdicts("plan")] == [accepted, accepted]
    assert verdicts.runs == runs
    assert verdicts.rate("plan") == (outcomes.count("F"), runs)


@pytest.mark.parametrize(
    ("outcomes", "times"), [("FF", [2]), ("F.F", [2, 1]), (".FF", [2, 1]), ("..", [2]), ("F..", [2, 1])]
)
def test_runs_at_once_are_those_that_are_needed_anyway(outcomes: str, times: list[int]) -> None:
    """Two of 2/3 can be made at the same time, whatever comes of them; the third only if they differ."""
    left, asked = iter(outcomes), []

    def fails(_: str, times: int) -> list[bool]:
        asked.append(times)
        return [next(left) == "F" for _ in range(times)]

    verdicts = Verdicts[str](fails, str, Acceptance(2, 3), at_once=4)
    assert verdicts("plan") == (outcomes.count("F") == 2)
    assert (asked, verdicts.runs) == (times, len(outcomes))


def test_a_run_made_elsewhere_counts() -> None:
    """The failure that the search has seen is one of the k."""
    verdicts = Verdicts[str](lambda *_: [True], str, Acceptance(2, 3))
    verdicts.note("plan", failed=True)
    assert verdicts("plan")
    assert verdicts.runs == 1


def test_without_time_nothing_more_is_run() -> None:
    """What is not known then counts as not failing, so that the plan stays as it is."""
    verdicts = Verdicts[tuple[int, ...]](lambda *_: [True], tuple, exhausted=lambda: True)
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
        Pause("worker:1", step=2, duration="12s"),
        Kill(("worker:0", "worker:1"), step=7),
        Crash("worker:0", step=9, how="segfault"),
        Slow("worker:0", step=1, per_step="20ms"),
    )

    def fails(candidate: FaultPlan) -> bool:
        kills = [fault for fault in candidate.faults if fault.kind == "kill" and int(fault.step or 0) >= 3]
        crashes = [fault for fault in candidate.faults if fault.kind == "crash"]
        return any("worker:1" in describe_fault(kill) for kill in kills) and bool(crashes)

    assert fails(plan)
    left = shrink_plan(plan, fails).expand(TOPOLOGY)
    assert describe_plan(left) == "kill worker:1 step=3; crash worker:0 step=1"


@pytest.mark.parametrize(
    "given",
    [
        Slow("worker:0", step=4, per_step="100ms"),
        Partition(
            src="worker:0", dst="worker:1", of="worker:0", step=4, mode="blackhole", duration="12s", one_way=True
        ),
        Flap(src="worker:0", dst="worker:1", of="worker:0", step=4, times=3),
        LateStart("worker:1", duration="3s"),
        Crash("worker:1", of="worker:*", step=1),
        Oom(("worker:0", "worker:1"), phase="after_save", nth=2),
        Kill("worker:0", src="worker:1", dst="worker:0", bytes_="30KB"),
    ],
)
def test_a_simpler_fault_still_makes_sense(given: Fault) -> None:
    """It can be carried out, leaves nothing open, is another one, and strikes no later."""
    (fault,) = _plan(given).faults
    found = list(simpler_faults(fault, TOPOLOGY))
    assert found
    for simpler in found:
        assert simpler != fault
        assert FaultPlan(faults=(simpler,)).expand(TOPOLOGY).faults == (simpler,)
        assert int(simpler.step or 0) <= int(fault.step or 0)
        # The agent acts at its own task's gate.
        assert not simpler.in_task or set(getattr(simpler, "task", ())) <= set(simpler.of or ())


@pytest.mark.parametrize(
    ("fault", "needed", "left"),
    [
        (Kill("worker:1", phase="after_save", nth=3), {"nth": 2}, "kill worker:1 at=save:2"),
        (
            Kill("worker:1", phase="after_save", nth=3),
            {"phase": ("after_save",)},
            "kill worker:1 at=save:done",
        ),
        (Kill("worker:1", phase="at_barrier", nth=2), {}, "kill worker:1 at=cluster"),
        (Kill("worker:1", of="worker:*", step=3), {"step": 2}, "kill worker:1 step=2"),
        (Kill(("worker:0", "worker:1"), of="worker:*", step=3), {"task": 2}, "kill worker:0+worker:1 step=1"),
        (
            Crash("worker:1", of="worker:*", phase="in_save"),
            {"of": 2},
            "kill worker:1 of=worker:0+worker:1 at=save",
        ),
        (Kill("worker:1", step=3, restart="1s"), {}, "kill worker:1 step=1"),
        (Kill("worker:1", step=3, restart="1s"), {"restart": ("0s", "1s")}, "kill worker:1 step=1 restart=0s"),
        (CrashLoop("worker:1", step=3, restart="1s"), {}, "kill worker:1 step=1"),
        (CrashLoop("worker:1", step=3, restart="1s"), {"times": (2, 3)}, "crash_loop worker:1 step=1 times=2"),
        (
            Kill("worker:0", src="worker:1", dst="worker:0", connections=3),
            {"connections": 2},
            "kill worker:0 connections=2 on worker:1 -> worker:0",
        ),
        (Stall(src="worker:1", dst="worker:0", bytes_="30KB"), {}, "stall worker:1 -> worker:0 bytes=1000B"),
        (
            Stall(src="worker:1", dst="worker:0", bytes_="30KB"),
            {"bytes_": 6000},
            "stall worker:1 -> worker:0 bytes=7500B",
        ),
    ],
)
def test_each_key_is_made_as_simple_as_the_failure_allows(fault: Fault, needed: dict[str, Any], left: str) -> None:
    """Points of a save, which time, whose progress, connections, bytes, and how soon it comes back."""

    def fails(candidate: FaultPlan) -> bool:
        (fault,) = candidate.faults
        return all(_has(getattr(fault, key, None), value) for key, value in needed.items())

    plan = _plan(fault)
    assert fails(plan)
    assert describe_plan(shrink_plan(plan, fails)) == left


def _has(value: Any, needed: Any) -> bool:
    """At least so many, tasks or bytes for example, or one of these words."""
    if not isinstance(needed, int):
        return value in needed
    if isinstance(value, str):
        value = parse_size(value)
    return bool((len(value) if isinstance(value, tuple) else value) >= needed)


@pytest.mark.parametrize("topology", [TOPOLOGY, Topology(chief=1, worker=2, ps=1), Topology()], ids=str)
@settings(max_examples=60)
@given(data=st.data())
def test_whatever_is_drawn_shrinks_to_the_simplest(topology: Topology, data: st.DataObject) -> None:
    """Where every plan fails: it comes to an end, with one fault that has one task, at its first trigger."""
    space = Space(topology, 6, choose_kinds((), topology), profile_of("swarm"))
    plan = data.draw(plans(space))
    tried: Counter[str] = Counter()

    def fails(candidate: FaultPlan) -> bool:
        tried[candidate.to_json()] += 1
        return True

    left = shrink_plan(plan, fails)
    assert left.expand(topology) == left
    assert max(tried.values(), default=1) == 1
    (fault,) = left.faults
    assert (fault.step in (None, 0, 1), fault.nth, fault.connections in (None, 1)) == (True, 1, True)
    assert len(getattr(fault, "task", ())) <= 1
    assert len(fault.of or ()) <= 1
    assert fault.bytes_ is None or parse_size(fault.bytes_) == 1000
    assert getattr(fault, "restart", None) in (None, "0s" if fault.kind in ("restart", "crash_loop") else None)


def test_two_plans_that_differ_read_differently() -> None:
    """Whose progress counts, which time, and on which link; what any plan would come to is left out."""
    texts = [
        Kill("worker:1", step=3),
        Kill("worker:1", of="worker:*", step=3),
        Kill("worker:1", of="worker:0", step=3),
        Kill("worker:1", phase="after_save"),
        Kill("worker:1", phase="after_save", nth=2),
        Kill("worker:1", src="worker:0", dst="worker:1", bytes_="1KB"),
        Kill("worker:1", src="worker:1", dst="worker:0", bytes_="1KB"),
        Oom("worker:1", step=3),
        Oom("worker:1", step=3, fatal=False),
    ]
    assert [describe_plan(_plan(text)) for text in texts] == [
        "kill worker:1 step=3",
        "kill worker:1 step=3 of=worker:0+worker:1",
        "kill worker:1 step=3 of=worker:0",
        "kill worker:1 at=save:done",
        "kill worker:1 at=save:done:2",
        "kill worker:1 bytes=1KB on worker:0 -> worker:1",
        "kill worker:1 bytes=1KB on worker:1 -> worker:0",
        "oom worker:1 step=3",
        "oom worker:1 step=3 fatal=False",
    ]
    servers = Topology(chief=1, worker=2, ps=1)
    assert describe_plan(_plan(Kill("ps:0", of="chief:0", step=3), topology=servers)) == "kill ps:0 step=3"
