"""The search: draws plans, runs them until one fails, and shrinks that one, within a budget of time.

Where several runs are under way at once, what comes of them is taken in in the order of their plans. So it does not
matter which of them ends first, and the same seed and as many jobs make the same plans.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from harness.search.corpus import Corpus
from harness.search.coverage_guided import Steering
from harness.search.outcome import PlanOutcome
from harness.search.plan_strategy import Space, drawn_plans
from harness.search.shrinking import Acceptance, Verdicts, shrink_plan
from harness.search.situations import Coverage, Point
from simulator import FaultPlan

Runner = Callable[[FaultPlan], PlanOutcome]
Waiting = Callable[[], PlanOutcome]
# A run that is given less could not even end its tasks.
_RUN_SECONDS_MIN = 1.0
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
    `repeats` are plans that failed in the same way as one that was found before.
    """

    plans: int = 0
    runs: int = 0
    tried: int = 0
    voids: int = 0
    unfired: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    finds: list[FailingPlan] = field(default_factory=list)
    repeats: int = 0
    # A failing plan, while it is being shrunk.
    suspect: FaultPlan | None = None
    outcome: PlanOutcome | None = None
    seconds: float = 0.0

    @property
    def found(self) -> FailingPlan | None:
        """The first that was found."""
        return self.finds[0] if self.finds else None


@dataclass
class Search:
    """One search.

    Attributes:
        run: runs a plan once.
        space: what plans are drawn from.
        budget: seconds, shrinking included; infinite for no end.
        plans: how many are drawn at most; None for as many as there is time for.
        began: from when on the budget counts, on the monotonic clock; None for when the search begins.
        seed: the same seed draws the same plans.
        points: what the run without a fault passed, by which plans are steered; None for plans that are drawn only.
        corpus: what earlier searches have shown, and this one adds to.
        endless: go on after a failing plan is found, for others that fail in another way.
        acceptance: how many runs of a plan must fail.
        listener: called after each run with `plan` or `shrink`, its number, the plan and the outcome.
        learned: called whenever the corpus has something more.
        keep: called with each failing plan that is found.
        hunt: what was done so far.
        jobs: how many runs may be under way at the same time.
        begin: begins to run a plan once, and returns what waits for the outcome; None if there is one job only.
    """

    run: Runner
    space: Space
    budget: float
    seed: int = 0
    plans: int | None = None
    points: tuple[Point, ...] | None = None
    corpus: Corpus = field(default_factory=Corpus)
    began: float | None = None
    endless: bool = False
    acceptance: Acceptance = field(default_factory=Acceptance)
    listener: Listener = lambda *_: None
    learned: Callable[[], None] = lambda: None
    keep: Callable[[FailingPlan], None] = lambda _: None
    hunt: Hunt = field(default_factory=Hunt)
    jobs: int = 1
    begin: Callable[[FaultPlan], Waiting] | None = None
    _fresh: bool = False
    # How those that were found have failed, as drawn and as shrunk.
    _known: list[PlanOutcome] = field(default_factory=list)

    def go(self) -> Hunt:
        """Search until a plan fails and the search is not endless, the budget is spent, or there are no more plans."""
        self.began = time.monotonic() if self.began is None else self.began
        hunt = self.hunt
        if self.points is not None:
            self.corpus.coverage.points = self.points
        hunt.coverage = self.corpus.coverage
        steering = None if self.points is None else Steering(self.space, self.points, self.seed, self.corpus)
        plans = iter(drawn_plans(self.space, self.seed) if steering is None else steering.plans())
        under_way: deque[tuple[int, FaultPlan, Waiting]] = deque(self._begun(plans, self.jobs))
        while under_way:
            failed = self._take_in(under_way, steering, 1)
            if failed:
                # Nothing else is run beside the shrinking, so that it has all jobs.
                failed += self._take_in(under_way, steering, len(under_way))
                for plan, outcome in failed:
                    if self._confirm(plan, outcome) and not self.endless:
                        return self._ended()
            under_way.extend(self._begun(plans, self.jobs - len(under_way)))
        return self._ended()

    def _ended(self) -> Hunt:
        self.hunt.seconds = self._elapsed
        return self.hunt

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.budget - self._elapsed

    @property
    def _elapsed(self) -> float:
        return 0.0 if self.began is None else time.monotonic() - self.began

    @property
    def seconds_of_run(self) -> float:
        """How long a run that begins now may take."""
        return max(_RUN_SECONDS_MIN, self.left)

    def _begun(self, plans: Iterator[FaultPlan], most: int) -> Iterator[tuple[int, FaultPlan, Waiting]]:
        """The next plans, as many as there is room and time for, each with its number and with what waits for it."""
        for _ in range(most):
            if self.hunt.plans == self.plans or (plan := next(plans, None)) is None or self.left <= 0:
                return  # drawing takes time as well
            self.hunt.plans += 1
            yield self.hunt.plans, plan, self._begin(plan)

    def _take_in(
        self, under_way: deque[tuple[int, FaultPlan, Waiting]], steering: Steering | None, count: int
    ) -> list[tuple[FaultPlan, PlanOutcome]]:
        """Wait for the oldest of the runs, and learn from them; those that have failed."""
        failed = []
        for _ in range(count):
            number, plan, waiting = under_way.popleft()
            outcome = self._noted("plan", number, plan, waiting)
            if steering is not None:
                steering.learn(plan, outcome, fresh=self._fresh)
            self.learned()
            if outcome.failed:
                failed.append((plan, outcome))
        return failed

    def _confirm(self, plan: FaultPlan, outcome: PlanOutcome) -> bool:
        """Whether it fails often enough, or there is no time to find out; if so, shrink it."""
        hunt = self.hunt
        if any(map(outcome.is_like, self._known)):
            hunt.repeats += 1
            return False
        hunt.suspect, hunt.outcome = plan, outcome
        latest = {plan.to_json(): outcome}

        def fails(candidate: FaultPlan, times: int) -> list[bool]:
            begun = [self._begin(candidate) for _ in range(times)]
            first = verdicts.runs - times + 1
            found = [self._noted("shrink", number, candidate, waiting) for number, waiting in enumerate(begun, first)]
            # Another symptom is another defect, which would lead the shrinking astray.
            alike = [each for each in found if each.symptom == outcome.symptom]
            latest.update({candidate.to_json(): each for each in alike})
            return [each.symptom == outcome.symptom for each in found]

        verdicts: Verdicts[FaultPlan] = Verdicts(
            fails, lambda candidate: candidate.to_json(), self.acceptance, lambda: self.left <= 0, self.jobs
        )
        verdicts.note(plan, failed=True)
        if not verdicts(plan) and not verdicts.cut:
            hunt.suspect = hunt.outcome = None
            return False
        smallest = shrink_plan(_of_those_that_struck(plan, outcome, verdicts), verdicts)
        failed, runs = verdicts.rate(smallest)
        if smallest not in self.corpus.failing:
            self.corpus.failing.append(smallest)
            self.learned()
        find = FailingPlan(plan, smallest, latest[smallest.to_json()], failed, runs, not verdicts.cut)
        hunt.finds.append(find)
        self._known += [outcome, find.outcome]
        hunt.suspect = hunt.outcome = None
        self.keep(find)
        return True

    def _begin(self, plan: FaultPlan) -> Waiting:
        return functools.partial(self.run, plan) if self.begin is None else self.begin(plan)

    def _noted(self, why: str, number: int, plan: FaultPlan, waiting: Waiting) -> PlanOutcome:
        outcome = waiting()
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
