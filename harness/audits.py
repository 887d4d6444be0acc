"""Which known defects of TensorFlow and Keras a program meets under a strategy, before any number is wrong."""

from __future__ import annotations

import contextlib
import functools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import NothingObserved
from harness.evidence.parts import TRACES
from harness.evidence.uses import Used, read_uses
from harness.judging.known_issues import KnownIssue, concerning
from harness.judging.verdict import Verdict
from harness.phases import phase
from harness.recording.library_uses import run_noting
from harness.run_directory import opened_run
from harness.running.clients import client_of
from harness.running.observe import check_hardware, run_once
from harness.running.script_checks import ready
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError, RunFailed

_SEED = 20


@dataclass(frozen=True)
class MetIssue:
    """A known defect that a program meets, and the lines that do."""

    issue: KnownIssue
    places: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {"id": self.issue.id, "summary": self.issue.summary, "places": self.places, "cure": self.issue.way_out}

    def lines(self, width: int) -> Iterator[str]:
        """For people, as other diagnostics are shown."""
        yield from textwrap.wrap(f"warning[{self.issue.id}]: {self.issue.summary}", width, subsequent_indent="    ")
        if self.places:
            yield f"  --> {', '.join(self.places)}"
        yield from textwrap.wrap(f"help: {self.issue.way_out}", width, subsequent_indent="      ")


@dataclass(frozen=True)
class Audit:
    """What one run of a program has met.

    Attributes:
        program: its name.
        strategy: under which it ran.
        met: the defects, in the order of the registry.
        looked_for: how many could have been met: the installed versions have them, under this strategy.
        failure: why the run did not come to its end, None if it did; it may have met more.
    """

    program: str
    strategy: str
    met: tuple[MetIssue, ...]
    looked_for: int
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As in `--json`."""
        return {
            "program": self.program,
            "strategy": self.strategy,
            "looked_for": self.looked_for,
            "met": [each.to_json() for each in self.met],
            "failure": self.failure,
        }

    def text(self, width: int) -> str:
        """For people."""
        head = f"{self.program} under {self.strategy}: meets {len(self.met)} of {self.looked_for} known defects"
        lines = [line for each in self.met for line in (*each.lines(width), "")]
        ended = [f"  the run failed, and may have met more: {self.failure}"] if self.failure else []
        return "\n".join([*lines, head, *ended])


def audit(program: Program, case: StrategyCase, *, timeout: float = 120.0, seed: int = _SEED) -> Audit:
    """Run a program once, and say which known defects of the installed versions it meets under a strategy.

    A defect is met by what a program builds and calls, whatever the numbers are: it says where to look first.

    Raises:
        UsageError: a script under a strategy for scripts of another kind.
        MissingHardware: the strategy needs hardware that is not there.
    """
    check_hardware(case)
    issues = [each for each in concerning([case.name], case.hardware) if each.meets]
    uses = list({str(use): use for issue in issues for all_of in issue.meets for use in all_of}.values())
    under_test = ready(program, case, None, prove=None)
    client = functools.partial(run_noting, client_of(under_test), uses)
    failure = None
    with opened_run(None) as directory:
        try:
            run_once(under_test, case, directory, seed=seed, timeout=timeout, stream=False, keep=False, client=client)
        except NothingObserved:  # what a program reports is not asked for here
            pass
        except RunFailed as error:
            failure = str(error).splitlines()[0]
        used = read_uses(directory / TRACES)
    met = tuple(MetIssue(issue, places) for issue in issues if (places := _places(issue, used)) is not None)
    return Audit(under_test.name, case.name, met, len(issues), failure)


def met_with(verdict: Verdict, program: Program, case: StrategyCase, *, timeout: float) -> tuple[MetIssue, ...]:
    """The known defects that break just the laws that a verdict finds broken, where one looked and nothing explains it.

    The program is run once more for it. What it does wrong by itself may look the same.
    """
    if verdict.outcome != "inconsistent" or verdict.explanation is not None or verdict.looked is None:
        return ()
    if verdict.looked.culprit is not None:
        return ()
    shown = [each for each in concerning([case.name], case.hardware) if each.meets and _breaks_the_same(each, verdict)]
    if not shown:
        return ()
    phase("running it once more, for known defects that it meets")
    with contextlib.suppress(LockstepError):  # then nobody knows
        return tuple(each for each in audit(program, case, timeout=timeout).met if each.issue in shown)
    return ()


def _breaks_the_same(issue: KnownIssue, verdict: Verdict) -> bool:
    symptom = issue.symptom_here
    return bool(symptom.laws) and symptom.rule is None and symptom.fits_verdict(verdict)


def _places(issue: KnownIssue, used: Sequence[Used]) -> tuple[str, ...] | None:
    """The lines of the first of its uses that were all made; None if there is none."""
    for all_of in issue.meets:
        found = [[each.where for each in used if each.use == use] for use in all_of]
        if all(found):
            return tuple(dict.fromkeys(where for wheres in found for where in wheres if where))
    return None
