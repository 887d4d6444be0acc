"""`lockstep search`: draw plans of faults until the program does not survive one, and shrink that."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._options import (
    NEEDED_AND_SPARE,
    html_option,
    machines_options,
    network_option,
    out_option,
    placing,
    restart_options,
    seed_option,
    timeout_option,
    try_out,
)
from harness.cli._output_files import again, check_written, write_page
from harness.cli._terminal_width import show
from simulator import UsageError
from simulator.units import parse_duration

if TYPE_CHECKING:
    from harness.cli._search_runs import Ran
    from harness.report.timeline import Timeline
    from harness.running.crew import Crew
    from harness.search import Acceptance, FailingPlan, Hunt, PlanOutcome, Search, Subject
    from harness.search.corpus import Corpus
    from harness.search.plan_strategy import Space
    from harness.subject.strategies import StrategyCase
    from simulator import FaultPlan

_BUDGET = "10m"

_EPILOG = """\b
Examples:
  lockstep search train.py:train --strategy multi_worker-2 --budget 10m
  lockstep search train.py:train --strategy mirrored-2 --kinds kill,preempt --seed 7
  lockstep search train.py:train --strategy mirrored-2 --endless --budget 8h --corpus corpus
  lockstep search train.py:train --strategy multi_worker-2 --machines 'ssh {}:m0,m1,m2'

\b
Exit codes:
  0  no plan found that the program does not survive
  1  a failing plan was found; it was written as a pytest file, also when interrupted
  2  usage error
  3  the program fails without a fault, on one device or under the strategy
  4  this machine lacks what the strategy needs, or a machine cannot be used
  5  not judged: no plan was tried, because there was no time for one, no fault of any struck, or the program cannot
     be judged
  130  interrupted before anything was found
"""


@command(epilog=_EPILOG)
@click.argument("program", metavar="FILE.py:FUNCTION")
@click.option("--strategy", default="mirrored-2", show_default=True, metavar="NAME", help="See `lockstep strategies`.")
@click.option(
    "--budget", metavar="DURATION", help="How long it may take in all.  [default: 10m, without an end for --endless]"
)
@click.option("--plans", type=click.IntRange(min=1), metavar="N", help="Draw no more plans than these.")
@click.option("--endless", is_flag=True, help="Go on after a failing plan, for others that fail in another way.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Run so many plans at the same time; each wants cores for its tasks.",
)
@seed_option("Decides which plans are drawn.", 0)
@click.option(
    "--profile",
    type=click.Choice(["situations", "swarm", "realistic"]),
    default="situations",
    show_default=True,
    help="Steered to what no fault has met; or kinds at random, or as often as published failure counts have them.",
)
@click.option("--kinds", metavar="A,B", help="Draw faults of these kinds only.")
@click.option(
    "--faults",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    metavar="N",
    help="At most so many in one plan.",
)
@click.option("--chaos", default="30s", show_default=True, metavar="DURATION", help="After this time a plan heals.")
@click.option(
    "--slowness",
    metavar="DURATION",
    help="A run may stand still so long beyond what its faults and TensorFlow's timeouts need.  [default: 10s]",
)
@click.option(
    "--accept",
    default="2/3",
    show_default=True,
    metavar="K/N",
    help="A plan counts as failing if K of N runs fail.",
)
@click.option(
    "--corpus",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Go on from what earlier searches have left there, and leave what this one has reached.",
)
@network_option
@machines_options
@restart_options(f"Restarts that a run may have.  [default: {NEEDED_AND_SPARE}]")
@click.option("--exact", is_flag=True, help="Allow for no rounding: every intermediate value is exactly representable.")
@timeout_option("Seconds for each run with its restarts.", 120.0)
@out_option("Where the test is written.", Path("lockstep-found"))
@html_option("Write what was tried and found as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def search(program: str, **options: Any) -> int:
    """Search for a plan of faults that FUNCTION(strategy, record) does not survive.

    The function is one that `lockstep verify --interrupt-at` accepts: it saves in record.directory and, started again,
    resumes from there. Each plan is run with restarts, heals after a while, and the run must then come to its end with
    the numbers of an undisturbed run on one device.
    """
    from harness.errors import Abstained, MissingHardware
    from simulator import HostsUnavailable, LockstepError
    from simulator.machines.far.checks import MachinesUnavailable

    try:
        return _search(program, options)
    except UsageError:
        raise
    except (HostsUnavailable, MachinesUnavailable, MissingHardware) as error:
        show(str(error), err=True)
        return Exit.LACKING
    except LockstepError as error:
        show(f"nothing was searched: {error}", err=True)
        if isinstance(error, Abstained):
            return Exit.ABSTAINED
        return Exit.FAILED


def _search(program: str, options: dict[str, Any]) -> int:
    from harness.cli._search_runs import check_jobs
    from harness.running.machine_files import on_machines
    from harness.search.corpus import Corpus, name_of_corpus, read_corpus, write_corpus
    from harness.search.plan_strategy import Space
    from harness.search.profiles import choose_kinds, profile_of
    from harness.search.venue import room_of
    from harness.subject.machines import Over
    from harness.subject.strategies import strategy_case
    from simulator import FaultPlan

    over = Over.of(**placing(options))
    case = strategy_case(options["strategy"], network=options["network"], over=over)
    topology, room = case.topology, room_of(case, options["restart_policy"])
    wanted = [word.strip() for word in (options["kinds"] or "").split(",") if word.strip()]
    kinds = choose_kinds(wanted, topology, room)
    began = time.monotonic()
    acceptance = _checked(options)
    check_jobs(options["jobs"], case)
    with on_machines(case), _subject(program, case, options) as (subject, crew):
        drawn_by = profile_of(options["profile"])
        space = Space(
            topology, subject.steps, kinds, drawn_by, options["chaos"], faults_max=options["faults"], room=room
        )

        folder, name = options["corpus"], name_of_corpus(program, case.name)
        corpus = Corpus() if folder is None else read_corpus(folder, name)
        page = None if options["html"] is None else _Page()
        searching = _searching(subject, space, options, began, acceptance, corpus, page, crew)
        interrupted, seconds = False, 0.0
        failing = _FailingPlans(program, case.name, options)
        searching.keep = lambda find: failing.add(find.plan, find.outcome, find)
        if folder is not None:
            searching.learned = functools.partial(write_corpus, folder, name, corpus)
        try:
            # What is wrong without any fault would be found by any plan, and shrunk to one that says nothing.
            undisturbed = subject.run(FaultPlan())
            seconds = undisturbed.seconds
            if not undisturbed:
                show(
                    f"nothing was searched: {program} fails under {case.name} without a fault\n{undisturbed}", err=True
                )
                return Exit.FAILED
            corpus.coverage.begin(undisturbed.shown)
            if drawn_by.steered:
                searching.points = undisturbed.shown.passed
            searching.go()
        except KeyboardInterrupt:
            interrupted = True
            click.echo("interrupted; what was found so far:", err=True)
    hunt, told = searching.hunt, {"program": program, "strategy": case.name}
    if hunt.suspect is not None and hunt.outcome is not None:
        # Interrupted while it was shrunk, a failing plan is worth a test as it is.
        failing.add(hunt.suspect, hunt.outcome)
    return _reported(options, searching, failing.written, seconds, page, told, interrupted=interrupted)


@contextlib.contextmanager
def _subject(
    program: str, case: StrategyCase, options: dict[str, Any]
) -> Iterator[tuple[Subject, Crew[Any, Any] | None]]:
    """What is searched, and the processes that run it where several runs are under way at once."""
    from harness.cli._search_runs import SubjectElsewhere
    from harness.running.cache import cache_folder
    from harness.running.crew import crew_of
    from harness.search import subject_of

    names = ("timeout", "restarts", "restart_policy", "slowness")
    told = {name: options[name] for name in names if options[name] is not None}
    told |= {"tier": "exact" if options["exact"] else "derived"}
    if options["jobs"] == 1:
        yield subject_of(program, case, **told), None
        return
    elsewhere = SubjectElsewhere(program, case, told, str(cache_folder()), options["html"] is not None)
    with crew_of(options["jobs"], elsewhere) as crew:
        yield subject_of(program, case, **told), crew


def _checked(options: dict[str, Any]) -> Acceptance:
    """How often a plan has to fail, after all that can be wrong about options has been looked at."""
    from harness.search import Acceptance

    if options["budget"] is None and not options["endless"]:
        options["budget"] = _BUDGET
    for key in ("budget", "chaos"):
        if options[key] is not None:
            parse_duration(options[key], key)
    acceptance = Acceptance.parse(options["accept"])
    try_out(options["out"])
    check_written(options["html"], None)
    return acceptance


def _searching(
    subject: Subject,
    space: Space,
    options: dict[str, Any],
    began: float,
    acceptance: Acceptance,
    corpus: Corpus,
    page: _Page | None,
    crew: Crew[Any, Any] | None,
) -> Search:
    from harness.cli._search_runs import run_plan
    from harness.search import Search, describe_plan

    def drawn(plan: FaultPlan, told: Ran) -> PlanOutcome:
        outcome, timelines = told
        if page is not None and timelines:
            page.timelines[plan.to_json()] = timelines
        return outcome

    def run(plan: FaultPlan) -> PlanOutcome:
        return drawn(plan, run_plan(subject, plan, searching.seconds_of_run, drawn=page is not None))

    def begin(plan: FaultPlan) -> Callable[[], PlanOutcome]:
        assert crew is not None
        begun = crew.begin((plan.to_mapping(), searching.seconds_of_run))
        return lambda: drawn(plan, begun.wait())

    def say(why: str, number: int, plan: FaultPlan, outcome: PlanOutcome) -> None:
        label = f"{number if why == 'plan' else '-':>4}"
        show(f"{label}  {describe_plan(plan)}: {outcome.summary}", err=True)
        if page is not None:
            page.runs.append((label, describe_plan(plan), outcome.failed, outcome.summary))

    budget = math.inf if options["budget"] is None else parse_duration(options["budget"], "budget")
    searching = Search(
        run,
        space,
        budget,
        options["seed"],
        options["plans"],
        corpus=corpus,
        began=began,
        endless=options["endless"],
        acceptance=acceptance,
        listener=say,
        jobs=options["jobs"],
        begin=None if crew is None else begin,
    )
    return searching


@dataclass
class _Page:
    """What `--html` shows: each run, and the timelines of those that failed, by their plan."""

    runs: list[tuple[str, str, bool, str]] = field(default_factory=list)
    timelines: dict[str, list[Timeline]] = field(default_factory=dict)

    def write(self, file: Path, plans: Sequence[FaultPlan], coverage: object, **told: Any) -> None:
        from harness.report.pages import search_page

        drawn = [each for plan in plans for each in self.timelines.get(plan.to_json(), [])]
        write_page(file, search_page(drawn, again(), runs=self.runs, coverage=str(coverage), **told))


@dataclass
class _Failing:
    """A failing plan with its test; without `find` it was interrupted before it was shrunk."""

    plan: FaultPlan
    outcome: PlanOutcome
    test: Path
    find: FailingPlan | None = None

    def text(self, budget: str) -> str:
        """How it fails, what the run was like, and where the test is."""
        from harness.search import describe_plan

        find = self.find
        how = f"{find.failed} of {find.runs} runs" if find else "not shrunk"
        if find is not None and not find.whole:
            how += f"; the budget of {budget} ended before it was shrunk, and less may do as well"
        fails = f"fails ({how}): {describe_plan(self.plan)}{_done_there(self.outcome)}"
        return f"{fails}\n\n{self.outcome}\n\nwritten to {self.test}"

    def to_json(self) -> dict[str, Any]:
        """All of it, as data."""
        return {
            "whole": self.find is not None and self.find.whole,
            "plan": self.plan.to_mapping(),
            "drawn": None if self.find is None else self.find.drawn.to_mapping(),
            "symptom": self.outcome.symptom,
            "text": self.outcome.text,
            "test": str(self.test),
        }


@dataclass
class _FailingPlans:
    """Writes a test of each failing plan as soon as it is found, so that nothing loses it."""

    program: str
    strategy: str
    options: dict[str, Any]
    written: list[_Failing] = field(default_factory=list)

    def add(self, plan: FaultPlan, outcome: PlanOutcome, find: FailingPlan | None = None) -> None:
        from harness.search import write_test

        test = write_test(self.options["out"], self.program, self.strategy, plan, outcome, _kept(self.options))
        self.written.append(_Failing(plan, outcome, test, find))


_NONE_FAILING = {"whole": False, "plan": None, "drawn": None, "symptom": None, "text": None, "test": None}


def _reported(
    options: dict[str, Any],
    searching: Search,
    failing: Sequence[_Failing],
    seconds: float,
    page: _Page | None,
    told: dict[str, Any],
    *,
    interrupted: bool,
) -> int:
    hunt = searching.hunt
    lacking = None if interrupted or hunt.tried else _why_nothing_was_tried(hunt, options, seconds)
    headline = _summary(hunt, len(failing)) if lacking is None else f"nothing was searched: {lacking}"
    text = "\n\n\n".join(each.text(options["budget"]) for each in failing)
    if options["as_json"]:
        click.echo(msgspec.json.encode(_as_json(hunt, failing, options, interrupted=interrupted)))
    else:
        show("\n".join(filter(None, (headline, str(hunt.coverage) if hunt.tried else "", text))))
    if page is not None:
        shown = {"headline": headline, "failing": text, "tried": hunt.tried, **told}
        page.write(options["html"], [each.plan for each in failing], hunt.coverage, **shown)
    if failing:
        return Exit.INCONSISTENT
    return Exit.INTERRUPTED if interrupted else Exit.FINE if lacking is None else Exit.ABSTAINED


def _done_there(outcome: PlanOutcome) -> str:
    """What was about to be done where the faults struck, as far as the plan does not say it."""
    told = [str(point) for point in outcome.shown.met if point is not None and point.what]
    return f"\nstruck: {'; '.join(told)}" if told else ""


def _why_nothing_was_tried(hunt: Hunt, options: dict[str, Any], seconds: float) -> str:
    """Why it says nothing that no failing plan was found, and what would be needed."""
    if not hunt.plans:
        # Ten plans, each of which takes longer than the run without a fault by its faults and restarts.
        needed = max(60, math.ceil(20 * seconds))
        return (
            f"the budget of {options['budget']} was spent before a plan could be run; one run without a fault took "
            f"{seconds:.1f} s, so give --budget {needed}s or more"
        )
    if hunt.voids:
        return f"{hunt.voids} of {hunt.runs} runs were void, as said above, and no fault struck in the others"
    return (
        f"no fault struck in {hunt.runs} runs of {hunt.plans} plans, because what triggers them never came; give "
        "other --kinds, more --faults, or a program with more steps and saves"
    )


def _kept(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `survives` with which the written test has to run as the search did."""
    names = ("timeout", "restarts", "restart_policy", "slowness", "network")
    kept = {name: options[name] for name in names if options[name] is not None}
    kept |= {name: value for name, value in placing(options).items() if value}
    return kept | ({"tier": "exact"} if options["exact"] else {})


def _summary(hunt: Hunt, failing: int) -> str:
    notes = [f"{hunt.plans} plans", f"{hunt.runs} runs", f"{hunt.unfired} faults not fired"]
    if hunt.voids:
        notes.append(f"{hunt.voids} runs void")
    if hunt.repeats:
        notes.append(f"{hunt.repeats} more plans failed in the same way")
    count = {0: "no failing plan", 1: "a failing plan"}.get(failing, f"{failing} failing plans")
    return f"{count} in {', '.join(notes)}"


def _as_json(hunt: Hunt, failing: Sequence[_Failing], options: dict[str, Any], *, interrupted: bool) -> dict[str, Any]:
    """The outcome as data; the keys are the same for every outcome."""
    first, *more = [each.to_json() for each in failing] or [_NONE_FAILING]
    return {
        "strategy": options["strategy"],
        "profile": options["profile"],
        "seed": options["seed"],
        "jobs": options["jobs"],
        "plans": hunt.plans,
        "runs": hunt.runs,
        "tried": hunt.tried,
        "unfired": hunt.unfired,
        "voids": hunt.voids,
        "repeats": hunt.repeats,
        "coverage": hunt.coverage.to_json(),
        "interrupted": interrupted,
        **first,
        "more": more,
    }
