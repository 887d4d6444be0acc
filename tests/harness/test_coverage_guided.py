"""Steered plans: every situation is met once, pairs are met early, and what never comes is given up."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from harness.search import Search, describe_plan
from harness.search.coverage_guided import Steering
from harness.search.outcome import PlanOutcome
from harness.search.plan_strategy import Space
from harness.search.profiles import profile_of
from harness.search.situations import Point, RunSituations
from simulator import FaultPlan, Topology

ALONE, TWO = Topology(), Topology(worker=2)
SAVE = ("before_save", "in_save", "file_operation", "after_save")
Wrong = Callable[[list[Point]], bool]


def _passed(task: str, incarnation: int, steps: int) -> list[Point]:
    """So many steps, with a save after every second one."""
    found = []
    for step in range(1, steps + 1):
        found.append(Point(task, incarnation, f"step:{step}"))
        if step % 2 == 0:
            writes = {"file_operation": "write state"}
            found += [Point(task, incarnation, f"phase:{at}:{step // 2}", writes.get(at, "")) for at in SAVE]
    return found


def _run(plan: FaultPlan, topology: Topology, wrong: Wrong, steps: int = 6) -> PlanOutcome:
    """Runs nothing: each fault strikes where its incarnation of the task comes there, and begins the next one."""
    met: list[Point | None] = []
    passed = [point for task in topology.tasks for point in _passed(task, 0, steps)]
    for fault in plan.faults:
        incarnation = int(fault.incarnation or 0)
        points = [
            *(Point(task, incarnation, "phase:before_restore:1") for task in topology.tasks if incarnation),
            *(point for task in topology.tasks for point in _passed(task, incarnation, steps - 2 * (incarnation > 0))),
        ]
        gate = str(fault.gate).partition("@")[0]
        hits = [point for point in points if point.gate == gate and point.task in (fault.of or ())]
        alive = incarnation == len([each for each in met if each is not None])
        met.append(hits[0] if hits and alive else None)
        passed += points if incarnation and alive else []
    failed = wrong([point for point in met if point is not None])
    return PlanOutcome(
        "numbers" if failed else None,
        struck=tuple(point is not None for point in met),
        unfired=("so",) * met.count(None),
        shown=RunSituations(tuple(passed), tuple(met)),
    )


def _search(topology: Topology, wrong: Wrong, *kinds: str, seed: int = 0, faults: int = 4, plans: int = 200) -> Search:
    space = Space(topology, 6, kinds or ("kill",), profile_of("situations"), faults_max=faults)
    points = tuple(point for task in topology.tasks for point in _passed(task, 0, 6))
    return Search(lambda plan: _run(plan, topology, wrong), space, 60.0, seed, plans, points)


def test_every_situation_is_met_and_then_the_search_ends() -> None:
    """With one kill in a plan there are as many plans as situations, drawn ones that are the same not counted."""
    search = _search(ALONE, lambda met: False, faults=1, plans=18)
    hunt = search.go()
    assert hunt.coverage.missing == []
    assert hunt.plans == len(search.points or ()) == 18
    assert set(hunt.coverage.met.values()) == {1}


def test_a_single_weak_situation_is_found_and_is_all_that_is_left() -> None:
    """Whichever it is, also where other kills come after it in the same plan."""
    for weak in _passed("worker:1", 0, 6):
        found = _search(TWO, lambda met, weak=weak: weak in met).go().found  # type: ignore[misc]
        assert found is not None
        (fault,) = found.plan.faults
        assert (fault.gate, fault.of) == (weak.gate, ("worker:1",))


@pytest.mark.parametrize("seed", range(3))
def test_what_two_kills_need_is_found_early(seed: int) -> None:
    """A death within a save of a job that has come back; neither kill alone does it."""

    def wrong(met: list[Point]) -> bool:
        return any(one.place == "step" and two.place == "write state" for one, two in itertools.pairwise(met))

    hunt = _search(ALONE, wrong, seed=seed).go()
    assert hunt.found is not None
    assert hunt.plans <= 20
    assert [fault.incarnation for fault in hunt.found.plan.faults] == [None, 1]


def test_the_same_seed_steers_alike() -> None:
    """Plans depend on the seed and on outcomes; of another seed they are others."""

    def plans(seed: int) -> list[str]:
        space = Space(TWO, 6, ("kill", "pause", "torn_checkpoint"), profile_of("situations"))
        steering = Steering(space, tuple(point for task in TWO.tasks for point in _passed(task, 0, 6)), seed)
        made = []
        for plan in itertools.islice(steering.plans(), 30):
            steering.learn(plan, _run(plan, TWO, lambda met: False), fresh=True)
            made.append(describe_plan(plan))
        return made

    first = plans(1)
    assert first == plans(1) != plans(2)
    assert len(set(first)) == 30
    assert sum("pause" in text for text in first) >= 5
    # What is damaged has to be read again.
    assert all("kill" in text for text in first if "torn_checkpoint" in text)


def test_an_outcome_counts_for_its_own_plan() -> None:
    """Two plans are drawn before the outcome of the first is known: it alone has missed."""
    space = Space(ALONE, 2, ("kill",), profile_of("situations"), faults_max=1)
    steering = Steering(space, tuple(_passed("local:0", 0, 2)), 0)
    plans = steering.plans()
    first, second = next(plans), next(plans)
    steering.learn(first, PlanOutcome(shown=RunSituations(met=(None,))), fresh=False)
    steering.learn(second, PlanOutcome(shown=RunSituations(met=(Point("local:0", 0, "step:1"),))), fresh=False)
    assert sorted(steering._missed.values()) == [1]
    (missed,) = steering._missed
    assert missed.trigger.items() <= first.to_mapping()["fault"][0].items()


def test_what_never_comes_is_given_up() -> None:
    """The negative control: nothing strikes, so each situation is tried twice, and what is left is drawn by chance."""
    space = Space(ALONE, 2, ("kill",), profile_of("situations"), faults_max=1)
    points = tuple(_passed("local:0", 0, 2))
    hunt = Search(lambda _: PlanOutcome(shown=RunSituations(met=(None,))), space, 60.0, points=points).go()
    assert hunt.tried == hunt.plans
    assert hunt.coverage.missing == list(points)


def _told(topology: Topology, *kinds: str, strikes: bool = True, plans: int = 120) -> list[FaultPlan]:
    """The plans of a search in which other kinds than kills strike, or never do."""
    space = Space(topology, 6, kinds, profile_of("situations"), faults_max=4)
    points = tuple(_passed("local:0", 0, 6))
    steering = Steering(space, points, 0)
    told = list[FaultPlan]()
    for plan in itertools.islice(steering.plans(), plans):
        told.append(plan)
        struck = tuple(fault.kind == "kill" or strikes for fault in plan.faults)
        steering.learn(plan, PlanOutcome(struck=struck), fresh=False)
    return told


def test_a_kill_comes_after_each_second_fault_that_ends_no_task() -> None:
    """A save on a full disk that nobody noticed is read by who comes after it."""
    full = _told(ALONE, "disk_full", "kill", plans=60)[2::3]  # between kills
    assert [[fault.kind for fault in plan.faults] for plan in full] == [["disk_full"], ["disk_full", "kill"]] * 10
    places = [point.gate for point in _passed("local:0", 0, 6)]
    for first, then in (plan.faults for plan in full[1::2]):
        assert places.index(str(then.gate)) >= places.index(str(first.gate))


def test_a_kind_that_never_strikes_is_given_up() -> None:
    """As a damaged checkpoint of TensorFlow's where a program saves otherwise; one that strikes goes on."""
    for strikes in (False, True):
        plans = _told(ALONE, "torn_checkpoint", "kill", strikes=strikes)
        torn = [any(fault.kind == "torn_checkpoint" for fault in plan.faults) for plan in plans]
        assert any(torn)
        assert any(torn[40:]) is strikes
