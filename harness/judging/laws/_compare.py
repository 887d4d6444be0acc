"""The five laws that compare a run's values with its reference's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from harness.evidence.comparing import Comparison, compare, finite_elements, place
from harness.evidence.observed import Observed, history, is_integer, moments
from harness.evidence.update_counters import is_counter
from harness.judging.laws._jumps import At, Found, Jumps
from harness.judging.laws._whole_tensors import WholeTensors
from harness.judging.laws.protocol import FINDINGS_MAX, Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.resolution import JUDGED_MAX, Resolving

_UNJUDGED_MAX = 0.5


def first_per_value(findings: list[Found]) -> tuple[Finding, ...]:
    """The first finding of each value: earliest step first, worst ratio first within a step, capped."""
    first: dict[tuple[str | None, str | None], tuple[Finding, float]] = {}
    for finding, ratio in findings:
        first.setdefault((finding.variable, finding.task), (finding, ratio))
    order = sorted(first.values(), key=lambda pair: (pair[0].step is None, pair[0].step or 0, -pair[1]))
    kept = [finding for finding, _ in order[:FINDINGS_MAX]]
    if len(findings) > 1:
        kept[0] = replace(kept[0], text=f"{kept[0].text} [the first of {len(findings)} differences]")
    return tuple(kept)


@dataclass(frozen=True)
class MatchesReference(Law):
    """The law that one observable equals the reference's, within the tolerance, at every step and at the end.

    A value that only one of the two recorded at a step that both reached is a finding.
    """

    id: str
    observable: str
    order: int
    suffices: bool = True

    def judge(self, case: Case) -> Judgement:
        """Compare every (value, step) that either recorded."""
        run = history(case.run, self.observable, aligned_to=case.reference)
        reference = history(case.reference, self.observable)
        if not run and not reference:
            return not_judged(self.id, f"neither the run nor the reference recorded {self.observable}")
        of_elements: list[Found] = []
        of_wholes: list[Found] = []
        ratios: dict[tuple[int | None, str], float] = {}
        recorded, resolving, wholes = 0, Resolving(), WholeTensors(case, self.observable)
        for step in _common_steps(case):
            for name, difference in self._differences(case, step, run.get(step), reference.get(step)):
                recorded += 1
                value = run.get(step, {}).get(name)
                if difference.ratio > 1:
                    of_elements.append((self._finding(step, name, difference, value), difference.ratio))
                ratio = difference.ratio
                if difference.observed is not None and value is not None:
                    self._resolve(resolving, case, step, name, reference[step][name])
                    if (whole := wholes.of(step, name, value)) is not None:
                        resolving.add_whole(step, name, whole.factor_bound, whole.rest_bound)
                        ratio = max(ratio, whole.ratio)
                        of_wholes += wholes.findings(self.id, step, name, whole, value.task)
                if difference.elements:
                    ratios[step, name] = ratio
        if not recorded and case.apart:
            return not_judged(self.id, f"no step can be judged by one replica: {next(iter(case.apart.values()))}")
        if not recorded:
            return not_judged(self.id, f"the run and the reference recorded {self.observable} at no step in common")
        if not ratios:
            what = f"none of the {recorded} recorded {self.observable}"
            return not_judged(self.id, f"{what} has an element that is finite in the reference")
        findings, jumps = _without_jumps(Jumps(case, self.observable, wholes), of_elements, of_wholes)
        worst = max(min(ratio, 1.0) if at in jumps else ratio for at, ratio in ratios.items())
        found = judged(self.id, len(ratios), first_per_value(findings), worst, recorded, resolving.result)
        found = replace(found, ratios=ratios)
        return found if findings else _or_unjudged(found, wholes)

    def _resolve(self, resolving: Resolving, case: Case, step: int | None, name: str, reference: Observed) -> None:
        """Take in how small an error would have been found; what is compared exactly has no bound to speak of."""
        if is_integer(reference.dtype):
            return
        bound, size = (of(self.observable, name, step) for of in (case.tolerance.bound, case.tolerance.sizes))
        resolving.add(step, name, bound, size, finite_elements(reference.array))

    def _differences(
        self, case: Case, step: int | None, run: dict[str, Observed] | None, reference: dict[str, Observed] | None
    ) -> Iterator[tuple[str, Comparison]]:
        run, reference = run or {}, reference or {}
        for name in [*reference, *(name for name in run if name not in reference)]:
            if name not in run:
                yield name, Comparison(float("inf"), "recorded by the reference, but not by the run")
            elif name not in reference:
                yield name, Comparison(float("inf"), "recorded by the run, but not by the reference")
            elif self.observable == "variables" and _counts_retries(case, name, run[name], reference[name]):
                yield name, Comparison(0.0)
            else:
                yield name, compare(run[name], reference[name], case.tolerance.bound(self.observable, name, step))

    def _finding(self, step: int | None, name: str, difference: Comparison, run: Observed | None) -> Finding:
        numeric = difference.observed is not None
        return Finding(
            law=self.id,
            text=f"{place(step, self.observable, name, difference.index)}: {difference.text}",
            task=run.task if run else None,
            step=step,
            observable=self.observable,
            variable=None if self.observable == "loss" else name,
            index=difference.index if numeric else None,
            observed=difference.observed,
            expected=difference.expected,
            bound=difference.bound if numeric else None,
        )


def _without_jumps(jumps: Jumps, of_elements: list[Found], of_wholes: list[Found]) -> tuple[list[Found], set[At]]:
    """What is left in the order of steps, of wholes those whose elements are right; and the values that have jumped."""
    elements = jumps.of_elements(of_elements)
    wrong = {jumps.at(each) for each in of_elements if each not in elements}
    wholes = jumps.of_wholes(apart := [each for each in of_wholes if jumps.at(each) not in wrong])
    left = [each for each in (*of_elements, *apart) if each not in elements and each not in wholes]
    left.sort(key=lambda found: (found[0].step is None, found[0].step))
    return left, {jumps.at(each) for each in (*elements, *wholes)} - {jumps.at(each) for each in left}


def _or_unjudged(law: Judgement, wholes: WholeTensors) -> Judgement:
    """A law that found nothing; as one that judges nothing if it could not have in most elements, or wholes."""
    if wholes.moved:
        if wholes.is_rounding:
            return replace(law, status="not_judged", reason="what steps add to variables is rounding, and nothing else")
        if not wholes.unseen:
            return law
        return replace(
            law,
            status="not_judged",
            reason=wholes.why,
            unseen=wholes.unseen,
            drawn=wholes.drawn,
            moved=len(wholes.moved),
        )
    found = law.resolution
    if found is None or found.share_unjudged <= _UNJUDGED_MAX:
        return law
    reason = (
        f"the bound of {found.unjudged} of {found.elements} elements is more than {JUDGED_MAX:.0%} of their size: what "
        "the program makes of roundings moves them too far"
    )
    return replace(law, status="not_judged", reason=reason)


def _counts_retries(case: Case, name: str, run: Observed, reference: Observed) -> bool:
    """Whether it counts updates, and no more of them than closures were scheduled and run again.

    A coordinator runs a closure again whose worker was lost, also if it had been applied there.
    """
    retried = sum(client.counters.retried for client in case.run.clients)
    usable = not (run.problem or reference.problem) and run.array.shape == reference.array.shape == ()
    if not retried or not usable or not is_counter(name) or not is_integer(run.dtype):
        return False
    return 0 <= int(run.array) - int(reference.array) <= retried


def _common_steps(case: Case) -> list[int | None]:
    """The moments that both reached; a missing one is for `steps_match_reference` to report."""
    reached = {moment.step for moment in moments(case.reference)} - case.apart.keys()
    if case.apart and max(moment.step or 0 for moment in moments(case.reference)) in case.apart:
        reached.discard(None)  # the end follows from the last step
    return [moment.step for moment in moments(case.run, aligned_to=case.reference) if moment.step in reached]
