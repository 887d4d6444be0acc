"""Fault plans drawn with Hypothesis, as data."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

from harness.running.disturbance import RECORD
from harness.search.profiles import Profile
from harness.search.venue import HERE, SearchVenue
from simulator import FaultPlan, Topology
from simulator.faults import Fault, LinkFault, TaskFault, all_kinds
from simulator.faults.protocol import PHASES, fields_of

# The name of our draws in `hypothesis.settings`.
_BACKEND = "lockstep"
_FAULTS_MAX = 4
# So many plans are drawn at once; each such batch has a seed of its own.
_BATCH = 16
# How much likelier a step is than each other trigger. The others may never come: a program may save nothing, and what a
# link carries is not known before.
_STEPS_AMONG_TRIGGERS = 4
# As often a point of a save is mostly passed before a fault strikes; at most it is as often as there are steps.
_TIMES_FEW = 3
# Phases that only workers have which train together.
_OF_SEVERAL = ("at_barrier", "collective")
_ON_LINKS: Mapping[str, Sequence[Any]] = {"bytes": ("10KB", "1KB", "30KB", "100KB"), "connections": (1, 2, 3)}
# How soon a fault brings back the task that it has ended; without it the restart policy does.
_RESTARTS = (None, "0s", "1s")
Draw = Callable[[st.SearchStrategy[Any]], Any]


class _BySeedOnly(HypothesisProvider):
    """Hypothesis's own draws, but for constants that occur in the source of the modules which happen to be loaded.

    Those find errors in code under test; but a search that is repeated by its seed, in a process with other modules,
    would have other plans.
    """

    def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
        return None


AVAILABLE_PROVIDERS[_BACKEND] = _BySeedOnly


@dataclass(frozen=True)
class Space:
    """What plans are drawn from.

    Attributes:
        topology: the tasks.
        steps: how many steps the undisturbed program records; faults strike after one of these.
        kinds: the kinds of faults, sorted.
        profile: how likely each is.
        chaos: the time from the start after which a plan heals, such as `30s`.
        progress: the time after that within which every task has to get on.
        faults_max: how many faults a plan may have.
        room: where the runs are.
    """

    topology: Topology
    steps: int
    kinds: tuple[str, ...]
    profile: Profile
    chaos: str = "30s"
    progress: str = "30s"
    faults_max: int = _FAULTS_MAX
    room: SearchVenue = HERE


def draw_plans(space: Space, number: int, count: int) -> list[FaultPlan]:
    """Up to `count` different plans, the same ones for the same `number`. The first is the simplest one.

    Every choice in them is made: they expand to themselves.
    """
    drawn_plans: dict[str, FaultPlan] = {}

    @seed(number)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        backend=_BACKEND,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(plans(space))
    def collect(plan: FaultPlan) -> None:
        drawn_plans.setdefault(plan.to_json(), plan)

    collect()
    return list(drawn_plans.values())


def drawn_plans(space: Space, seed: int) -> Iterator[FaultPlan]:
    """Different plans without end, as long as there are any; the same for the same seed."""
    seen: set[str] = set()
    barren = 0
    numbers = random.Random(seed)
    while barren < 5:
        new = [plan for plan in draw_plans(space, numbers.getrandbits(32), _BATCH) if plan.to_json() not in seen]
        barren = 0 if new else barren + 1
        seen.update(plan.to_json() for plan in new)
        yield from new


def plans(space: Space) -> st.SearchStrategy[FaultPlan]:
    """Plans of one to `faults_max` faults, which heal."""

    @st.composite
    def drawn_plans(draw: Draw) -> FaultPlan:
        chosen = _survivable(_kinds_drawn(draw, space), space.room)
        # In the order in which they strike, as far as a plan says: steps count anew after a restart.
        faults = sorted((_fault(draw, kind, space) for kind in chosen), key=lambda fault: int(fault.step or 0))
        plan = FaultPlan(faults=tuple(faults), heal=space.chaos, progress=space.progress)
        return plan.expand(space.topology)

    return drawn_plans()


def _kinds_drawn(draw: Draw, space: Space) -> list[str]:
    """The kind of each fault of a plan."""
    if space.profile.subset:
        enabled = draw(st.lists(st.sampled_from(space.kinds), min_size=1, unique=True))
        kinds: list[str] = draw(st.lists(st.sampled_from(sorted(enabled)), min_size=1, max_size=space.faults_max))
        return kinds
    weights = space.profile.weights(space.kinds)
    # Hypothesis prefers what comes first; a generator that it only seeds keeps to the weights.
    choices = draw(st.randoms(use_true_random=True)).choices
    chosen: list[str] = choices(list(weights), list(weights.values()), k=draw(st.integers(1, space.faults_max)))
    return chosen


def _survivable(kinds: Sequence[str], room: SearchVenue) -> list[str]:
    """These, but for machines that are taken away when there would be none left to go on with."""
    kept: list[str] = []
    for kind in kinds:
        lost = sum(all_kinds()[each].of_machines for each in kept)
        if lost < room.lost_max or not all_kinds()[kind].of_machines:
            kept.append(kind)
    return kept


def _fault(draw: Draw, kind: str, space: Space) -> Fault:
    """One fault of this kind, with a trigger and whatever keys the kind has."""
    topology = space.topology
    known = all_kinds()[kind]
    table: dict[str, Any] = {"kind": kind}
    if issubclass(known, LinkFault):
        table |= {**_link(draw, topology), "one_way": draw(st.booleans())}
    elif issubclass(known, TaskFault):
        table["task"] = _tasks(draw, known, topology)
    if "directory" in known.needed:
        table["directory"] = RECORD
    for key, values in known.searched.items():
        if (value := draw(st.sampled_from(values))) is not None:
            table[key] = value
    # In synchronous training the others fail with a task that dies, and the policy starts all of them.
    if topology.ps and _may_stay_dead(known) and (restart := draw(st.sampled_from(_RESTARTS))) is not None:
        table["restart"] = restart
    table |= _trigger(draw, table, space)
    return FaultPlan.from_mapping({"fault": [table]}).faults[0]


def _may_stay_dead(kind: type[Fault]) -> bool:
    """Whether it ends tasks, and starts them again only if that is asked for."""
    return any(field.name == "restart" and field.default is None for field in fields_of(kind))


def _trigger(draw: Draw, table: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """When it strikes: mostly after a step, of its own task or of others, else at a point of a save or on a link."""
    topology = space.topology
    known = all_kinds()[table["kind"]]
    if known.implied:
        return {}
    on_link = issubclass(known, LinkFault)
    others = len(topology.clients) > 1
    possible = ["step"] * _STEPS_AMONG_TRIGGERS + ["step of all"] * others + ["phase"]
    # What a link has carried is not known any more where a machine is taken away.
    if len(topology.networked) > 1 and not known.in_task and not space.room.lost_max:
        possible += ["bytes", "connections"]
    chosen = draw(st.sampled_from(possible))
    if chosen in ("bytes", "connections"):
        ends = {key: table[key] for key in ("src", "dst")} if on_link else _link(draw, topology)
        return {**ends, chosen: draw(st.sampled_from(_ON_LINKS[chosen]))}
    if chosen == "phase":
        phases = [phase for phase in PHASES if phase not in _OF_SEVERAL or (others and not topology.ps)]
        times = draw(st.sampled_from((_TIMES_FEW, max(_TIMES_FEW, space.steps))))
        when: dict[str, Any] = {"phase": draw(st.sampled_from(phases)), "nth": draw(st.integers(1, times))}
    else:
        when = {"step": draw(st.integers(1, space.steps))}
    if chosen == "step of all":
        return {**when, "of": list(topology.clients)}
    # What happens inside a task happens where that task stands; elsewhere the first client speaks for the job.
    return when if "task" in table else {**when, "of": topology.clients[0]}


def _tasks(draw: Draw, kind: type[Fault], topology: Topology) -> list[str]:
    """Mostly one task, sometimes all that can be struck, as by a power cut, or all of one job."""
    able: Sequence[str] = topology.clients if kind.in_task or kind.clients_only else topology.tasks
    if len(able) > 1 and kind.strikes_many and not kind.of_machines and draw(st.integers(0, 4)) == 4:
        jobs = sorted({task.partition(":")[0] for task in able})
        wanted = draw(st.sampled_from(["", *jobs] if len(jobs) > 1 else [""]))
        return [task for task in able if task.startswith(wanted)]
    return [draw(st.sampled_from(able))]


def _link(draw: Draw, topology: Topology) -> dict[str, Any]:
    """A link that is used: with ps tasks the chief and the workers connect to tasks of other jobs."""
    pairs = [
        (src, dst)
        for src in topology.networked
        for dst in topology.networked
        if src != dst and (not topology.ps or _may_connect(src, dst))
    ]
    src, dst = draw(st.sampled_from(pairs))
    return {"src": src, "dst": dst}


def _may_connect(src: str, dst: str) -> bool:
    order = ("chief", "worker", "ps")
    jobs = src.partition(":")[0], dst.partition(":")[0]
    return all(job in order for job in jobs) and order.index(jobs[0]) < order.index(jobs[1])
