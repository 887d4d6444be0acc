"""Drawn plans: valid, decided, reproducible, and as likely as their profile says."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.search import describe_plan
from harness.search.plan_strategy import Space, draw_plans, drawn_plans, plans
from harness.search.profiles import PROFILES, choose_kinds, profile_of, searchable
from harness.search.venue import HERE, SearchVenue, room_of
from harness.subject.machines import Over
from harness.subject.strategies import strategy_case
from simulator import Cluster, FaultPlan, Topology, UsageError
from simulator.faults import Fault, MachineLost, all_kinds
from simulator.faults.protocol import POINTS

WORKERS, SERVERS, ALONE = Topology(worker=3), Topology(chief=1, worker=2, ps=1), Topology()


def _space(topology: Topology, profile: str = "swarm", *kinds: str) -> Space:
    return Space(topology, 6, choose_kinds(kinds, topology), profile_of(profile))


@pytest.mark.parametrize("topology", [WORKERS, SERVERS, ALONE], ids=str)
@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=10)
@given(data=st.data())
def test_a_plan_is_decided_and_survives_its_files(profile: str, topology: Topology, data: st.DataObject) -> None:
    """It can be carried out in its cluster, leaves nothing open, heals, and is the same from TOML and from JSON."""
    plan = data.draw(plans(_space(topology, profile)))
    assert 1 <= len(plan.faults) <= 4
    assert plan.expand(topology) == plan
    plan.check(topology)
    assert plan.heal is not None
    assert FaultPlan.from_mapping(plan.to_mapping()) == plan
    assert all(int(fault.step or 0) <= 6 for fault in plan.faults)


def test_every_kind_is_drawn() -> None:
    """In the end each kind that can be searched with comes, and each value of each key."""
    kinds: Counter[str] = Counter()
    values: set[tuple[str, str, object]] = set()
    for kind in searchable(WORKERS):
        for plan in draw_plans(_space(WORKERS, "swarm", kind), 1, 24):
            kinds.update(fault.kind for fault in plan.faults)
            searched = all_kinds()[kind].searched
            values |= {(kind, key, getattr(fault, key)) for fault in plan.faults for key in searched}
    assert (
        set(kinds) == set(searchable(WORKERS)) == set(all_kinds()) - {"nan", "bitflip", "loss", "machine_lost", "cut"}
    )
    assert values == {
        (kind, key, value)
        for kind in kinds
        for key in all_kinds()[kind].searched
        for value in all_kinds()[kind].searched[key]
    }


@cache
def _drawn_faults(topology: Topology, *kinds: str, count: int = 100) -> list[Fault]:
    space = _space(topology, "swarm", *(kinds or ("kill", "delay", "partition")))
    return [fault for number in range(3) for plan in draw_plans(space, number, count) for fault in plan.faults]


@pytest.mark.parametrize("topology", [WORKERS, SERVERS], ids=str)
def test_every_trigger_is_drawn(topology: Topology) -> None:
    """Steps mostly, but also each point of a save, bytes and connections of a link, and the progress of others."""
    faults = _drawn_faults(topology)
    counts = Counter(fault.trigger for fault in faults)
    assert set(counts) == {"step", "phase", "bytes", "connections"}
    assert counts["step"] > len(faults) / 2
    assert {fault.phase for fault in faults if fault.phase} == set(POINTS.values()) - (
        {"at_barrier", "collective"} if topology.ps else set()
    )
    assert {fault.nth for fault in faults if fault.phase} == set(range(1, 7))
    assert [fault for fault in faults if set(fault.of or ()) - set(getattr(fault, "task", ()))]


def test_what_happens_inside_a_task_waits_for_that_task() -> None:
    """The agent acts at its own gate: such a fault has no trigger on a link, and its task is one of `of`."""
    for fault in _drawn_faults(SERVERS, "crash", "disk_full", "oom", count=12):
        assert fault.trigger in ("step", "phase")
        assert set(getattr(fault, "task", ())) <= set(fault.of or ())


def test_parameter_servers_are_struck_like_workers_and_the_chief() -> None:
    """Each task dies in some plan, alone, with its job or with all; here only, some faults bring it back themselves."""
    kills, of_workers = (
        [fault for fault in _drawn_faults(topology) if fault.kind == "kill"] for topology in (SERVERS, WORKERS)
    )
    struck = {getattr(fault, "task", ()) for fault in kills}
    assert {(task,) for task in SERVERS.tasks} | {("worker:0", "worker:1"), SERVERS.tasks} <= struck
    assert {getattr(fault, "restart", None) for fault in kills} == {None, "0s", "1s"}
    assert {getattr(fault, "restart", None) for fault in of_workers} == {None}


def test_links_of_a_parameter_server_cluster_are_those_that_are_used() -> None:
    """The chief connects to workers and ps, workers to ps; two workers have nothing to say to each other."""
    jobs = {
        tuple(str(end).partition(":")[0] for end in (fault.src, fault.dst))
        for fault in _drawn_faults(SERVERS)
        if fault.src
    }
    assert jobs == {("chief", "worker"), ("chief", "ps"), ("worker", "ps")}


def test_the_same_seed_draws_the_same_plans() -> None:
    """And another seed draws others; none comes twice."""
    first, again, other = (
        [next(found).to_json() for _ in range(40)]
        for found in (drawn_plans(_space(WORKERS), seed) for seed in (3, 3, 4))
    )
    assert first == again
    assert first != other
    assert len(set(first)) == 40


def test_few_plans_come_to_an_end() -> None:
    """Where all there are have been drawn, the search ends."""
    space = Space(ALONE, 2, ("kill",), profile_of("swarm"), faults_max=1)
    found = {describe_plan(plan) for plan in drawn_plans(space, 0)}
    assert {"kill local:0 step=1", "kill local:0 step=2"} < found
    points = set(POINTS) - {"cluster", "collective"}
    at = {text.split()[2] for text in found}
    assert {each for each in at if not each[-1].isdigit()} == {f"at={point}" for point in points}


def test_swarm_plans_differ_in_what_they_enable() -> None:
    """Some plans of several faults have one kind only, which is rare where every kind is always enabled."""
    found = draw_plans(_space(WORKERS, "swarm"), 1, 80)
    several = [{fault.kind for fault in plan.faults} for plan in found if len(plan.faults) > 2]
    assert sum(len(kinds) == 1 for kinds in several) > len(several) / 10


def test_realistic_plans_have_the_published_shares() -> None:
    """About two thirds of the faults are hard deaths, and network and maintenance come in about one tenth each."""
    found = [fault.kind for plan in draw_plans(_space(WORKERS, "realistic"), 1, 150) for fault in plan.faults]
    counts = Counter(found)
    network = sum(counts[kind] for kind in ("partition", "delay", "jitter", "rate", "stall", "flap"))
    assert len(found) > 150
    assert 0.5 < counts["kill"] / len(found) < 0.75
    assert 0.04 < network / len(found) < 0.2
    assert 0.03 < counts["preempt"] / len(found) < 0.16
    assert counts["disk_full"] < counts["pause"] + counts["slow"] + counts["late_start"]


def test_plans_do_not_depend_on_what_else_is_loaded() -> None:
    """A search is repeated by its seed, in a process with other modules; constants of these are no draws."""
    program = (
        "from tests.harness.test_plan_strategy import *\n"
        "from tests.harness.test_plan_strategy import _space\n"
        "print('\\n'.join(plan.to_json() for plan in draw_plans(_space(WORKERS, 'realistic'), 3, 40)))\n"
    )
    there = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    here = "\n".join(plan.to_json() for plan in draw_plans(_space(WORKERS, "realistic"), 3, 40))
    assert there.rstrip() == here.rstrip()


THREE = "env MACHINE={}:m0,m1,m2"


def _kinds_over_machines(topology: Topology, room: SearchVenue) -> tuple[list[FaultPlan], list[str]]:
    """Drawn plans, and how each is refused over machines; empty for those that are not."""
    space = Space(topology, 6, choose_kinds((), topology, room), profile_of("swarm"), room=room)
    found = [plan for number in range(3) for plan in draw_plans(space, number, 40)]
    said = []
    for plan in found:
        try:
            Cluster(topology, machines=THREE, faults=plan, restarts=1)
            said.append("")
        except UsageError as error:
            said.append(str(error))
    return found, said


def test_plans_over_machines_can_be_carried_out_there() -> None:
    """They take machines away, though never the last; those that are drawn for this machine could not be, in part."""
    drawn_there, refused = _kinds_over_machines(WORKERS, SearchVenue(machines=3, lost_max=2))
    assert set(refused) == {""}
    lost = [[fault for fault in plan.faults if isinstance(fault, MachineLost)] for plan in drawn_there]
    assert max(len(faults) for faults in lost) == 2
    assert all(isinstance(fault.task, tuple) and len(fault.task) == 1 for faults in lost for fault in faults)
    plans_without, refused = _kinds_over_machines(SERVERS, SearchVenue(machines=3))
    assert set(refused) == {""}
    assert {fault.trigger for plan in plans_without for fault in plan.faults} >= {"bytes", "connections"}
    _, refused = _kinds_over_machines(WORKERS, HERE)
    assert any("acts on processes or files of this machine" in text for text in refused)


def test_a_case_says_how_many_machines_it_may_lose() -> None:
    """All but one where the whole job is started again, else none."""
    workers = strategy_case("multi_worker-2", over=Over(THREE))
    assert room_of(workers, None) == SearchVenue(machines=3, lost_max=2)
    assert room_of(strategy_case("parameter_server-1w1p", over=Over(THREE)), None) == room_of(workers, "task")
    assert room_of(workers, "task").lost_max == 2
    assert room_of(workers, "none").lost_max == 0
    assert room_of(strategy_case("multi_worker-2"), None) == HERE
    with pytest.raises(UsageError, match="the job cannot go on without one: it needs --machines"):
        choose_kinds(["machine_lost"], WORKERS)
    with pytest.raises(UsageError, match="the tasks are on others"):
        choose_kinds(["pause"], WORKERS, SearchVenue(machines=3))


def test_links_need_two_tasks() -> None:
    """Where nothing is connected, no fault of a link is drawn."""
    assert "partition" in searchable(WORKERS)
    assert "partition" not in searchable(ALONE)


@pytest.mark.parametrize(
    ("kind", "topology", "said"),
    [("kil", WORKERS, "is unknown"), ("delay", ALONE, "strikes links"), ("nan", WORKERS, "changes numbers by itself")],
)
def test_a_kind_that_cannot_be_drawn_is_a_usage_error(kind: str, topology: Topology, said: str) -> None:
    """It says why, and which kinds there are."""
    with pytest.raises(UsageError, match=said) as error:
        choose_kinds([kind], topology)
    assert "draws from crash, crash_loop" in str(error.value)


def test_an_unknown_profile_is_a_usage_error() -> None:
    """It names those that exist."""
    with pytest.raises(UsageError, match="profiles are situations, swarm, realistic"):
        profile_of("chaotic")
