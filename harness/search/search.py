"""The search: draws plans, runs them until one fails, and shrinks that one, within a budget of time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from harness.search.corpus import Corpus
from harness.search.coverage_guided import Steering
from harness.search.outcome import PlanOutcome
from harness.search.plan_strategy import Space, drawn_plans
from harness.search.shrinking import Acceptance, Verdicts, shrink_plan
from harness.search.situations import Coverage, Point
from simulator import FaultPlan

__all__ = ["FailingPlan", "Hunt", "Search"]

Runner = Callable[[FaultPlan], PlanOutcome]
Listener = Callable[[str, int, FaultPlan, PlanOutcome], None]


@dataclass(frozen=True)
class FailingPlan:
    """A failing plan: as it was drawn, the smallest that fails alike, and what the latter's last failing run was like.

    `failed` of `runs` runs of the smallest one failed. `whole` says that nothing smaller fails alike; else there was no
    time to find out.
    """

    drawn: FaultPlan
    plan: FaultPlan
    outcome: PlanOutcome
    failed: int
    runs: int
    whole: bool = True


@dataclass
class Hunt:
    """What a search has done so far; complete when it returns, and right at any moment before.

    `tried` are the runs that say something about the program: they are not void, and at least one fault struck.
    """

    plans: int = 0
    runs: int = 0
    tried: int = 0
    voids: int = 0
    unfired: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    found: FailingPlan | None = None
    # A failing plan, while it is being shrunk.
    suspect: FaultPlan | None = None
    outcome: PlanOutcome | None = None
    seconds: float = 0.0


@dataclass
class Search:
    """One search.

    Attributes:
        run: runs a plan once.
        space: what plans are drawn from.
        budget: seconds, shrinking included.
        plans: how many are drawn at most; None for as many as there is time for.
        began: from when on the budget counts, on the monotonic clock; None for when the search begins.
        seed: the same seed draws the same plans.
        points: what the run without a fault passed, by which plans are steered; None for plans that are drawn only.
        corpus: what earlier searches have shown, and this one adds to.
        acceptance: how many runs of a plan must fail.
        listener: called after each run with `plan` or `shrink`, its number, the plan and the outcome.
        hunt: what was done so far.
    """

    run: Runner
    space: Space
    budget: float
    seed: int = 0
    plans: int | None = None
    points: tuple[Point, ...] | None = None
    corpus: Corpus = field(default_factory=Corpus)
    began: float | None = None
    acceptance: Acceptance = field(default_factory=Acceptance)
    listener: Listener = lambda *_: None
    hunt: Hunt = field(default_factory=Hunt)
    _fresh: bool = False

    def go(self) -> Hunt:
        """Search until a plan fails, the budget is spent, or there are no more plans."""
        self.began = time.monotonic() if self.began is None else self.began
        hunt = self.hunt
        if self.points is not None:
            self.corpus.coverage.points = self.points
        hunt.coverage = self.corpus.coverage
        steering = None if self.points is None else Steering(self.space, self.points, self.seed, self.corpus)
        for plan in drawn_plans(self.space, self.seed) if steering is None else steering.plans():
            if self.left <= 0 or hunt.plans == self.plans:
                break
            hunt.plans += 1
            outcome = self._run("plan", hunt.plans, plan)
            if steering is not None:
                steering.learn(plan, outcome, fresh=self._fresh)
            if outcome.failed and self._confirm(plan, outcome):
                break
        hunt.seconds = self.budget - self.left
        return hunt

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.budget - (0.0 if self.began is None else time.monotonic() - self.began)

    def _confirm(self, plan: FaultPlan, outcome: PlanOutcome) -> bool:
        """Whether it fails often enough, or there is no time to find out; if so, shrink it."""
        hunt = self.hunt
        hunt.suspect, hunt.outcome = plan, outcome
        latest = {plan.to_json(): outcome}

        def fails(candidate: FaultPlan) -> bool:
            found = self._run("shrink", verdicts.runs, candidate)
            # Another symptom is another defect, which would lead the shrinking astray.
            if found.symptom != outcome.symptom:
                return False
            latest[candidate.to_json()] = found
            return True

        verdicts: Verdicts[FaultPlan] = Verdicts(
            fails, lambda candidate: candidate.to_json(), self.acceptance, lambda: self.left <= 0
        )
        verdicts.note(plan, failed=True)
        if not verdicts(plan) and not verdicts.cut:
            hunt.suspect = hunt.outcome = None
            return False
        smallest = shrink_plan(_of_those_that_struck(plan, outcome, verdicts), verdicts)
        failed, runs = verdicts.rate(smallest)
        if smallest not in self.corpus.failing:
            self.corpus.failing.append(smallest)
        hunt.found = FailingPlan(plan, smallest, latest[smallest.to_json()], failed, runs, not verdicts.cut)
        return True

    def _run(self, why: str, number: int, plan: FaultPlan) -> PlanOutcome:
        outcome = self.run(plan)
        self.hunt.runs += 1
        self.hunt.voids += outcome.void is not None
        self.hunt.unfired += len(outcome.unfired)
        self._fresh = self.hunt.coverage.add(outcome.shown) > 0
        self.hunt.tried += outcome.void is None and len(outcome.unfired) < len(plan.faults)
        self.listener(why, number, plan, outcome)
        return outcome


def _of_those_that_struck(plan: FaultPlan, outcome: PlanOutcome, fails: Verdicts[FaultPlan]) -> FaultPlan:
    """The plan without faults whose trigger never came, if that fails alike."""
    struck = tuple(itertools.compress(plan.faults, outcome.struck))
    without = msgspec.structs.replace(plan, faults=struck)
    return without if 0 < len(struck) < len(plan.faults) and fails(without) else plan
