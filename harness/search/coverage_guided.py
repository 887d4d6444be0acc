"""Plans that are steered by what runs have shown: a kill at every situation, pairs of them, other kinds, and mutations.

A run that was started again costs little more than one that was not. So each plan kills one situation of the first
incarnation, and in the later ones, which the kill before has brought, situations of theirs: what fails is shrunk to the
kill that is needed, and what two kills need is met early. Situations at whose like few faults were aimed come first.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.search.corpus import Corpus
from harness.search.outcome import PlanOutcome
from harness.search.plan_strategy import Space, draw_plans, drawn_plans
from harness.search.situations import Point
from simulator import FaultPlan
from simulator.faults import Fault, LinkFault, all_kinds
from simulator.faults.protocol import TRIGGERS, fields_of

_PLAINEST = "kill"
# Each so manieth plan has another kind than the plainest.
_OTHER_KINDS_EACH = 3
# Where a point was aimed at so often and never met, it does not come.
_TRIES_MAX = 2
# A kind of fault that never struck in so many plans has nothing to strike here, such as a file of TensorFlow's.
_BLANKS_MAX = 4
# So many of the latest plans with something new are mutated; after so many that were there before, there are no others.
_CORPUS_MAX, _BARREN_MAX = 16, 50
_OF_TRIGGERS = (*TRIGGERS, "at", "nth", "incarnation", "until", "of", "id")
# So many points of an incarnation one after the other count as equally early.
_ALIKE = 4
# Where in a run its first fault strikes at first, as parts of it: there is something saved, and something left to do.
_EARLIEST, _LATEST = 0.45, 0.65


@dataclass
class Steering:
    """The source of a search's plans, which learns from their outcomes.

    Attributes:
        space: what plans are made of.
        points: those that the run without a fault passed.
        seed: decides between situations that are alike.
        corpus: what earlier runs have shown; pairs and plans of this one are added.
    """

    space: Space
    points: tuple[Point, ...]
    seed: int
    corpus: Corpus = field(default_factory=Corpus)
    _left: list[Point] = field(default_factory=list)
    _later: dict[Point, None] = field(default_factory=dict)
    _aimed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _missed: Counter[Point] = field(default_factory=Counter)
    _chain: tuple[Point, ...] = ()
    _chains: dict[str, tuple[Point, ...]] = field(default_factory=dict)
    _drawn: Counter[str] = field(default_factory=Counter)
    _strikes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        strikes = set(self.space.topology.clients)
        there = [point for point in self.points if point.task in strikes and not point.incarnation]
        self._middle = self._random.uniform(_EARLIEST, _LATEST)
        self._places = {point: place / len(there) for place, point in enumerate(there)}
        self._left = [point for point in there if point not in self.corpus.coverage.met]
        self._later = dict.fromkeys(self._expected())
        for point, times in self.corpus.coverage.met.items():
            self._aim(point, times)

    def plans(self) -> Iterator[FaultPlan]:
        """Different plans, as long as there are any, each made of the outcomes that are known when it is asked for."""
        seen: set[str] = set()
        others, by_chance = self._other_kinds(), filter(self._may_show, drawn_plans(self.space, self.seed))
        barren = 0
        for failing in self.corpus.failing:
            seen.add(failing.to_json())
            yield failing
        for number in itertools.count(1):
            self._chain = ()
            plan = next(others, None) if number % _OTHER_KINDS_EACH == 0 else None
            plan = plan or self._single() or self._pair()
            plan = plan or (self._mutated() if number % 2 else None) or next(by_chance, None) or self._mutated()
            if plan is None or barren >= _BARREN_MAX:
                return
            barren = barren + 1 if plan.to_json() in seen else 0
            if not barren:
                seen.add(plan.to_json())
                self._chains[plan.to_json()] = self._chain
                yield plan

    def learn(self, plan: FaultPlan, outcome: PlanOutcome, *, fresh: bool) -> None:
        """Take in what a plan has shown; `fresh`: something that no run before has."""
        shown = outcome.shown
        for aimed, met in zip(self._chains.pop(plan.to_json(), ()), shown.met, strict=False):
            if met is None:
                self._missed[aimed] += 1
                if not aimed.incarnation and self._missed[aimed] < _TRIES_MAX:
                    self._left.append(aimed)
        for fault, struck in zip(plan.faults, outcome.struck, strict=False):
            self._drawn[fault.kind] += 1
            self._strikes[fault.kind] += struck
        self._later |= dict.fromkeys(
            dataclasses.replace(each, incarnation=1) for each in shown.passed if each.incarnation
        )
        if fresh:
            self.corpus.plans.append(plan)

    # -- kills

    @property
    def _kills(self) -> bool:
        return _PLAINEST in self.space.kinds

    def _single(self) -> FaultPlan | None:
        """A kill at a situation that no plan was aimed at, and further ones after it."""
        if not self._left or not self._kills:
            return None
        first = min(self._left, key=lambda point: (*self._rarity(point), abs(self._places[point] - self._middle)))
        self._left.remove(first)
        return self._chained([first])

    def _pair(self) -> FaultPlan | None:
        """Kills at two situations, of kinds that no run has met one after the other."""
        if not self._kills or self.space.faults_max < 2:
            return None
        first = {(point.place, point.task): point for point in self._shuffled(self._places)}
        then = {(point.place, point.task): point for point in self._shuffled(self._later)}
        may_come = [two for two, point in then.items() if self._may_come(point)]
        untried = [(one, two) for one in first for two in may_come if (*one, *two) not in self.corpus.pairs]
        if not untried:
            return None
        one, two = self._random.choice(untried)
        return self._chained([first[one], then[two]])

    def _chained(self, points: list[Point]) -> FaultPlan:
        """Kills at these points, and at one of each incarnation that comes after them."""
        for point in points:
            self._aim(point)
        for before, then in itertools.pairwise(points):
            self.corpus.pairs[before.place, before.task, then.place, then.task] += 1
        while len(points) < self.space.faults_max:
            # What comes early is there whatever is left to do.
            order = {point: place // _ALIKE for place, point in enumerate(self._later)}
            options = [point for point in self._shuffled(self._later) if self._may_come(point)]
            if not options:
                break
            one, pairs = (points[-1].place, points[-1].task), self.corpus.pairs
            point = min(options, key=lambda at: (pairs[(*one, at.place, at.task)], *self._rarity(at), order[at]))
            self._aim(point)
            pairs[(*one, point.place, point.task)] += 1
            # With parameter servers a task comes back alone.
            earlier = [each for each in points if each.task == point.task] if self.space.topology.ps else points
            points.append(dataclasses.replace(point, incarnation=len(earlier)))
        self._chain = tuple(points)
        return self._plan(_killed(point) for point in points)

    def _expected(self) -> Iterator[Point]:
        """What an incarnation that was started again will pass, as far as that is known before one was: one save."""
        saved: set[str] = set()
        for task in self.space.topology.clients:
            yield Point(task, 1, "phase:before_restore:1")
        for point in self._places:
            if point.task not in saved and point.place != "at_barrier":
                yield dataclasses.replace(point, incarnation=1)
            if point.place == "after_save":
                saved.add(point.task)

    def _may_come(self, point: Point) -> bool:
        return all(self._missed[dataclasses.replace(point, incarnation=n)] < _TRIES_MAX for n in (1, 2, 3))

    def _rarity(self, point: Point) -> tuple[int, bool, int]:
        again = "again" if point.incarnation else ""
        return self._aimed[point.place, point.task, again], point.place != "step", self._aimed[point.place, "", again]

    def _aim(self, point: Point, times: int = 1) -> None:
        again = "again" if point.incarnation else ""
        self._aimed[point.place, point.task, again] += times
        self._aimed[point.place, "", again] += times

    def _shuffled(self, points: Iterable[Point]) -> list[Point]:
        return self._random.sample(known := sorted(points), len(known))

    # -- other kinds, and what comes after all that

    def _other_kinds(self) -> Iterator[FaultPlan]:
        """One fault of each other kind in turn, at a situation; without an end.

        Each second one of those that end no task is followed by a kill: what went on as if nothing had been is met by
        who begins with what was left.
        """
        kinds = [kind for kind in self.space.kinds if kind != _PLAINEST]
        drawn: Counter[str] = Counter()
        for kind in _in_turn(kinds) if kinds and self._places else ():
            if kind in (blank := self._blank):
                if blank.issuperset(kinds):
                    return
                continue
            alone = dataclasses.replace(self.space, kinds=(kind,), faults_max=1)
            (fault,) = draw_plans(alone, self._random.getrandbits(32), 2)[-1].faults
            point = self._random.choice(list(self._places))
            faults = [_moved(fault, point)]
            drawn[kind] += 1
            if self._kills and self.space.faults_max > 1:
                if fault.may_end_run:
                    # Who has damaged a file that nobody reads again has done nothing.
                    faults.append(_killed(point))
                elif not (drawn[kind] % 2 or _ends_task(all_kinds()[kind]) or all_kinds()[kind].of_machines):
                    faults.append(_killed(self._after(point)))
            yield self._plan(faults)

    @property
    def _blank(self) -> set[str]:
        """The kinds that have nothing to strike here, while there are others."""
        found = {kind for kind, count in self._drawn.items() if count >= _BLANKS_MAX and not self._strikes[kind]}
        return found if found < set(self.space.kinds) else set()

    def _after(self, point: Point) -> Point:
        """One of the situations of the same task that come next, if there is one."""
        places = list(self._places)
        later = [each for each in places[places.index(point) + 1 :] if each.task == point.task]
        return self._random.choice(later[:_ALIKE] or [point])

    def _may_show(self, plan: FaultPlan) -> bool:
        """Whether a drawn plan is more than one kill of one task, and waits for nothing that no task passes."""
        gates = {point.gate for point in (*self._places, *self._later)}
        alone = len(plan.faults) == 1 and plan.faults[0].kind == _PLAINEST and len(plan.faults[0].of or ()) == 1
        blank = self._blank.intersection(fault.kind for fault in plan.faults)
        return not (alone or blank) and all(
            fault.gate is None or fault.step == 0 or fault.gate in gates for fault in plan.faults
        )

    def _mutated(self) -> FaultPlan | None:
        """A plan after which the job was in a state that was new, with one fault at another situation."""
        if not self.corpus.plans:
            return None
        base = self._random.choice(self.corpus.plans[-_CORPUS_MAX:])
        faults = list(base.faults)
        place = self._random.randrange(len(faults))
        incarnation = int(faults[place].incarnation or 0)
        points = self._shuffled(self._later if incarnation else self._places)
        faults[place] = _moved(faults[place], dataclasses.replace(points[0], incarnation=incarnation))
        return self._plan(faults)

    def _plan(self, faults: Iterable[Fault]) -> FaultPlan:
        plan = FaultPlan(faults=tuple(faults), heal=self.space.chaos, progress=self.space.progress)
        return plan.expand(self.space.topology)


def _killed(point: Point) -> Fault:
    table: dict[str, Any] = {"kind": _PLAINEST, "task": point.task, **point.trigger}
    return FaultPlan.from_mapping({"fault": [table]}).faults[0]


def _ends_task(kind: type[Fault]) -> bool:
    return any(field.name == "restart" for field in fields_of(kind))


def _may_react(kind: type[Fault]) -> bool:
    return any(field.name == "grace" for field in fields_of(kind))


def _leaves_something(kind: type[Fault]) -> bool:
    return kind.may_end_run or _may_react(kind) or (kind.in_task and not _ends_task(kind))


def _in_turn(kinds: Sequence[str]) -> Iterator[str]:
    """Each kind again and again, those more often that leave something else than a kill: damage, or time to react."""
    special = [each for each in kinds if _leaves_something(all_kinds()[each])]
    others = [kind for kind in kinds if kind not in special]
    for other in itertools.cycle(others or [""]):
        yield from filter(None, (*special, other))


def _moved(fault: Fault, point: Point) -> Fault:
    """The fault with this point as its trigger, of the same tasks unless it acts inside of one."""
    if fault.implied:
        return fault
    table = FaultPlan(faults=(fault,)).to_mapping()["fault"][0]
    gone = {*_OF_TRIGGERS, *(() if isinstance(fault, LinkFault) else ("src", "dst"))}
    left = {key: value for key, value in table.items() if key not in gone}
    if fault.in_task:
        left["task"] = [point.task]
    return FaultPlan.from_mapping({"fault": [{**left, **point.trigger, "of": [point.task]}]}).faults[0]
