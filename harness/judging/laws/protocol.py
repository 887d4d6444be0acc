"""What a law is: it reads a run and its reference and returns a judgement, never an exception."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harness.evidence.corrupt_values import CorruptValue
from harness.evidence.links import Links
from harness.evidence.saves import Saves
from harness.evidence.trace import RunTrace
from harness.judging.interruption import Interruption
from harness.judging.resolution import Resolution
from harness.judging.tolerance import Tolerance

FINDINGS_MAX = 10
"""Findings kept per law that compares values; the first one's text counts them all."""

Status = Literal["held", "broken", "not_judged"]


@dataclass(frozen=True)
class Finding:
    """One way in which a law is broken.

    `step` is the reference's step (from 1), None at the end of the run. `observable` is one of
    `harness.evidence.observed.OBSERVABLES`, or `examples`, `steps`, `updates`. `observed`, `expected` and `bound` are
    the numbers of the worst element, at `index` of `variable`; for `examples` they count how often the example with the
    id `index` was seen.
    """

    law: str
    text: str
    task: str | None = None
    step: int | None = None
    observable: str | None = None
    variable: str | None = None
    index: tuple[int, ...] | None = None
    observed: float | None = None
    expected: float | None = None
    bound: float | None = None

    @property
    def ratio(self) -> float | None:
        """Observed error over bound, infinite for any error where the bound is 0; None without numbers."""
        if self.observed is None or self.expected is None or self.bound is None:
            return None
        error = abs(self.observed - self.expected)
        return error / self.bound if self.bound > 0 and not math.isnan(error) else float("inf")


@dataclass(frozen=True)
class Judgement:
    """What one law says of one run.

    `compared` counts the values of which something was compared, out of `recorded` that the law is about; the
    others are empty, or not finite in the reference. Of a law that is not judged they are those of earlier parts.
    `worst_ratio` is the largest error / bound among them, None for a law that knows no bound. `resolution` says how
    small an error would have been found, where there are bounds. `suffices` is as of the law. `unseen` are
    variables of which a wrong change would not have been found, of `moved` that change, and `drawn` those of them
    whose change one device makes otherwise each time. `ratios` has of each value, by the step and the name, its
    error in bounds; of several parts nobody needs them.
    """

    law: str
    status: Status
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    worst_ratio: float | None = None
    compared: int = 0
    recorded: int = 0
    suffices: bool = False
    resolution: Resolution | None = None
    unseen: tuple[str, ...] = ()
    drawn: tuple[str, ...] = ()
    moved: int = 0
    ratios: Mapping[tuple[int | None, str], float] = field(default_factory=dict, repr=False, hash=False)


@dataclass(frozen=True)
class Case:
    """A run to be judged, the reference it should equal, and how far it may be from it.

    Of an interrupted run `run` is the resumed part and `reference` the steps that it should have; `interruption` holds
    the rest. `links` is what the links between the tasks of the whole run carried, None if there are none. `struck` are
    the numbers that faults have changed, here or in what was restored. `saves` are those
    of the whole run, known to its last part. `where` names the part of a run in parts. `notes` are what a verdict says
    of what the harness saw by itself. `apart` says by step why one replica could not compute it; the end of the run
    follows from its last step. `follows` is whether the reference followed the run, step by step, and `wholes` whether
    each of its replicas stands for a whole, so that what they add up is a mean. `share` is, where a
    rule reads losses that nobody reported, by what that of each replica counts: 1, or one by their number; `told` are
    the observables that only a rule reads so, and no law judges.
    """

    run: RunTrace
    reference: RunTrace
    tolerance: Tolerance
    interruption: Interruption | None = None
    links: Links | None = None
    struck: tuple[StruckAt, ...] = ()
    where: str = ""
    saves: Saves | None = None
    notes: tuple[str, ...] = ()
    apart: Mapping[int, str] = field(default_factory=dict)
    follows: bool = False
    wholes: bool = False
    share: float | None = None
    told: frozenset[str] = frozenset()

    @property
    def begin(self) -> int:
        """How many steps of the reference lie before it."""
        if self.interruption is not None:
            return self.interruption.resumed_at
        steps = self.reference.clients[0].steps
        return steps[0].index - 1 if steps else 0


@dataclass(frozen=True)
class StruckAt:
    """A changed number among the steps of a case.

    `after` is the last step of the reference, or 0, whose record was made before. A variable was changed after this
    step, a gradient while the next one was computed.
    """

    struck: CorruptValue
    after: int


class Law:
    """One statement that must hold of every run that it concerns; each lives in its own file, as `LAW`.

    Attributes:
        id: the name in reports; also the name of the file.
        order: the place in reports, lowest first.
        suffices: whether a run of which it alone could be judged counts as consistent: it compares with the truth.
        counts: whether it says nothing of what a step makes of its examples, so that it suffices only where nothing is
            trained.
        cure: what to do where nothing else explains that it is broken; empty where that may be anything.
    """

    id: str
    order: int
    suffices: bool
    counts: bool = False
    cure: str = ""

    def concerns(self, case: Case) -> bool:
        """Whether it has a place in the report of such a run: one about resuming has none where nothing resumed."""
        return True

    def suffices_for(self, case: Case) -> bool:
        """Whether it does of such a run."""
        starts = [client.start for client in case.run.clients if client.start is not None]
        trained = any(start.variables for start in starts)
        return self.suffices and not (self.counts and trained)

    def judge(self, case: Case) -> Judgement:
        """Compare whatever was recorded; say `not_judged` when that is nothing."""
        raise NotImplementedError


def not_judged(law: str, reason: str) -> Judgement:
    """A law that had nothing to compare, and why."""
    return Judgement(law, "not_judged", reason)


def judged(
    law: str,
    compared: int,
    findings: tuple[Finding, ...],
    worst_ratio: float | None = None,
    recorded: int | None = None,
    resolution: Resolution | None = None,
) -> Judgement:
    """A law that compared something, of all that was `recorded` where that may be more: held when it found nothing."""
    return Judgement(
        law,
        "broken" if findings else "held",
        findings=findings,
        worst_ratio=worst_ratio,
        compared=compared,
        recorded=compared if recorded is None else recorded,
        resolution=resolution,
    )
