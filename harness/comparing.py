"""Holds two judged runs of one program against each other: do they give the same numbers?

Each run has a reference of its own, with a bound for each element. What two right runs may differ by is the sum of both
bounds: by the triangle inequality no pair of runs that are consistent with the same reference is further apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.damaged_files import reading
from harness.evidence.comparing import compare, place
from harness.evidence.observed import OBSERVABLES, Observed, history
from harness.judging.align import aligned_cases
from harness.judging.laws import Case
from harness.judging.verdict import Verdict
from harness.saved_run import load_run, unjudged, with_saved_findings
from harness.verify import judge

_KEPT_MAX = 10
# What is judged of numbers is compared as numbers; of these laws it is asked whether they hold.
_OTHERS = ("steps_match_reference", "examples_match_reference", "updates_counted", "resumes_exactly", "finite")


@dataclass(frozen=True)
class ComparedRun:
    """A run that was judged: its verdict, and the cases in which its values stand at the steps of its reference."""

    verdict: Verdict
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class ComparedRuns:
    """A value that differs by more than both bounds together; the numbers are those of the worst element.

    `step` is the reference's, None at the end. Without numbers `text` says why the two cannot be compared.
    """

    step: int | None
    observable: str
    variable: str | None
    index: tuple[int, ...] | None
    a: float | None
    b: float | None
    bound: float | None
    text: str


@dataclass(frozen=True)
class LawApart:
    """A law that one run breaks, and the other does not."""

    law: str
    a: str
    b: str
    text: str


@dataclass(frozen=True)
class Compared:
    """What two runs have in common.

    Attributes:
        a: the verdict on the one.
        b: the verdict on the other.
        differences: the earliest first, one for each value.
        laws: those about steps, examples and resuming that one of them breaks.
        compared: how many values were compared, by observable.
        worst_ratio: the largest difference over its bound.
        unjudged: why nothing can be said; None where something can.
    """

    a: Verdict
    b: Verdict
    differences: tuple[ComparedRuns, ...]
    laws: tuple[LawApart, ...]
    compared: dict[str, int]
    worst_ratio: float | None
    unjudged: str | None

    @property
    def outcome(self) -> Literal["agree", "differ", "abstained"]:
        """What differs is known to differ; who finds nothing where nothing can be found has nothing to say."""
        if self.differences or self.laws:
            return "differ"
        return "agree" if self.unjudged is None else "abstained"

    def lines(self) -> Iterator[str]:
        """The result in words."""
        yield {"agree": "a and b agree", "differ": "a and b DIFFER", "abstained": "NOT JUDGED"}[self.outcome]
        if self.differences:
            more = f" [the first of {len(self.differences)} values]" if len(self.differences) > 1 else ""
            yield f"  first difference: {self.differences[0].text}{more}"
        for law in self.laws:
            yield f"  {law.law}: {law.a} in a, {law.b} in b: {law.text}"
        if self.compared:
            ratio = "" if self.worst_ratio is None else f", worst ratio {self.worst_ratio:.2g}"
            yield f"  compared: {', '.join(f'{name} {count}' for name, count in self.compared.items())}{ratio}"
        if self.unjudged is not None and self.outcome == "abstained":
            yield f"  {self.unjudged}"
        if self.outcome == "agree" and not (self.a.consistent and self.b.consistent):
            yield "  but neither is what comes out on one device, see `lockstep verify`"

    def to_json(self) -> dict[str, Any]:
        """The object of the command line's `--json`."""
        first = self.differences[0] if self.differences else None
        return {
            "outcome": self.outcome,
            "first_difference": None if first is None else vars(first),
            "differences": [vars(each) for each in self.differences],
            "laws": [vars(each) for each in self.laws],
            "compared": self.compared,
            "worst_ratio": None if self.worst_ratio is None else _strict(self.worst_ratio),
            "abstained": self.unjudged if self.outcome == "abstained" else None,
            "a": self.a.to_json(),
            "b": self.b.to_json(),
        }


def read_side(directory: Path) -> ComparedRun:
    """Judge a saved run again, without TensorFlow.

    Raises:
        UsageError: the directory holds no saved run, or one that is damaged.
    """
    if (verdict := unjudged(directory)) is not None:
        return ComparedRun(verdict, ())
    parts, reference, saved = load_run(directory)
    with reading(directory):
        verdict = judge(
            parts,
            reference,
            program=saved["program"],
            tasks=saved["tasks"],
            seconds=saved["seconds"],
            faults=saved.get("faults"),
            forced=saved.get("forced", False),
        )
        return ComparedRun(with_saved_findings(verdict, saved, reference), aligned_cases(parts, reference))


def compare_runs(a: ComparedRun, b: ComparedRun) -> Compared:
    """Compare every value that both runs have recorded at a step that both have reached."""
    found: list[tuple[ComparedRuns, float]] = []
    compared: dict[str, int] = {}
    ratios: list[float] = []
    for observable in OBSERVABLES:
        ours, theirs = _values(a, observable), _values(b, observable)
        for step in sorted(ours.keys() & theirs.keys(), key=_when):
            for difference, ratio in _at(observable, step, ours[step], theirs[step]):
                compared[observable] = compared.get(observable, 0) + 1
                ratios.append(ratio)
                if ratio > 1:
                    found.append((difference, ratio))
    found.sort(key=lambda pair: (_when(pair[0].step), OBSERVABLES.index(pair[0].observable), -pair[1]))
    first = {(each.observable, each.variable): each for each, _ in reversed(found)}
    kept = sorted(first.values(), key=lambda each: next(k for k, pair in enumerate(found) if pair[0] is each))
    return Compared(
        a.verdict,
        b.verdict,
        tuple(kept[:_KEPT_MAX]),
        tuple(_laws_apart(a.verdict, b.verdict)),
        compared,
        max(ratios, default=None),
        _unjudged(a.verdict, b.verdict, compared),
    )


_Values = Mapping[str, tuple[Observed, Any]]


def _values(side: ComparedRun, observable: str) -> dict[int | None, _Values]:
    """Each value with its bounds, by step and name; of a step that was done again what came last."""
    found: dict[int | None, _Values] = {}
    for case in side.cases:
        run = history(case.run, observable, aligned_to=case.reference)
        truth = history(case.reference, observable)
        for step in run:
            if step in truth:
                bounds = {name: case.tolerance.bound(observable, name, step) for name in run[step]}
                found[step] = {name: (value, bounds[name]) for name, value in run[step].items()}
    return found


def _at(observable: str, step: int | None, a: _Values, b: _Values) -> Iterator[tuple[ComparedRuns, float]]:
    """Each value at a step, with how far it is apart as a share of what it may be."""
    for name in [*a, *(name for name in b if name not in a)]:
        if name not in a or name not in b:
            who, other = ("a", "b") if name in a else ("b", "a")
            text = f"{place(step, observable, name)}: recorded by {who}, but not by {other}"
            yield ComparedRuns(step, observable, name, None, None, None, None, text), float("inf")
            continue
        (ours, bound), (theirs, other_bound) = a[name], b[name]
        found = compare(ours, theirs, _sum(bound, other_bound, theirs))
        where = place(step, observable, name, found.index)
        if found.observed is None or found.expected is None:
            yield ComparedRuns(step, observable, name, None, None, None, None, f"{where}: {found.text}"), found.ratio
            continue
        x, y = found.observed, found.expected
        text = f"{where}: a {x:.8g}, b {y:.8g}, apart {abs(x - y):.3g}, bound {found.bound:.3g}"
        yield ComparedRuns(step, observable, name, found.index, x, y, found.bound, text), found.ratio


def _sum(a: Any, b: Any, like: Observed) -> Any:
    """Both bounds together; of shapes that do not fit each other nothing, since then the values do not either."""
    import numpy as np

    shapes = {np.shape(a), np.shape(b)} - {()}
    return a + b if not shapes or shapes == {like.array.shape} else 0.0


def _laws_apart(a: Verdict, b: Verdict) -> Iterator[LawApart]:
    theirs = {law.law: law for law in b.judgements}
    for ours in a.judgements:
        other = theirs.get(ours.law)
        if ours.law in _OTHERS and other is not None and (ours.status == "broken") != (other.status == "broken"):
            broken = ours if ours.status == "broken" else other
            said = {law: law.status.replace("_", " ") for law in (ours, other)}
            yield LawApart(ours.law, said[ours], said[other], broken.findings[0].text)


def _unjudged(a: Verdict, b: Verdict, compared: Mapping[str, int]) -> str | None:
    for name, verdict in (("a", a), ("b", b)):
        if verdict.abstained is not None:
            return f"{name} cannot be judged: {verdict.abstained}"
    if not compared:
        return "the two have recorded nothing at a step in common"
    judged = [{law.law for law in verdict.judgements if law.status != "not_judged"} for verdict in (a, b)]
    of_numbers = {law for law in judged[0] & judged[1] if law.partition("_match")[0] in compared}
    if not of_numbers:
        return "nothing that both have recorded could be judged in either; `lockstep verify -v` says why"
    return None


def _when(step: int | None) -> tuple[bool, int]:
    return step is None, step or 0


def _strict(number: float) -> float | str:
    return number if number < float("inf") else "inf"
