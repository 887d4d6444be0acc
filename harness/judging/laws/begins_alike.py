"""Law: the first step begins with what it begins with on one device; after a restart, with what was left before.

Steps are judged from what the run held, so that a weight which is drawn too large, a rate that grows with the number of
replicas before training begins, or a variable that a restore has left out, would show nowhere else.
"""

from __future__ import annotations

from harness.evidence.comparing import compare
from harness.evidence.cut import steps_between
from harness.evidence.observed import history, unique_names
from harness.evidence.trace import ClientTrace, RunTrace, Step
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.tolerance import Derived, Exact, Tolerance

__all__ = ["LAW"]

_WHOLE = ("copies", "plain", "mirrored", "statistics")


class _BeginsAlike(Law):
    id = "begins_alike"
    order = 12
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.reference.clients[0].start is not None

    def judge(self, case: Case) -> Judgement:
        """Compare each variable that both have, of which every replica holds the whole."""
        begun, truth = _begun(case.run), _begun(case.reference)
        if begun is None or truth is None:
            return not_judged(self.id, "what the first step begins with is not known of both")
        tolerance, step = _tolerance(case, truth), case.begin + 1
        ours, theirs = (history(each, "variables").get(1, {}) for each in (begun, truth))
        findings, compared, worst = [], 0, 0.0
        for name in theirs:
            if name not in ours or ours[name].array.shape != theirs[name].array.shape:
                continue
            found = compare(ours[name], theirs[name], tolerance.bound("variables", name, 1))
            compared += 1
            worst = max(worst, found.ratio)
            if found.ratio > 1:
                at = f"{name!r}{list(found.index) if found.index else ''}"
                finding = Finding(
                    law=self.id,
                    text=f"before step {step}, variable {at}: {found.text}",
                    task=case.run.clients[0].header.task,
                    step=step,
                    observable="start",
                    variable=name,
                    observed=found.observed,
                    expected=found.expected,
                    bound=found.bound if found.observed is not None else None,
                )
                findings.append((finding, found.ratio))
        if not compared:
            return not_judged(self.id, "no variable has the same name and shape on one device")
        return judged(self.id, compared, first_per_value(findings) if findings else (), worst)


def _tolerance(case: Case, truth: RunTrace) -> Tolerance:
    if not isinstance(case.tolerance, Derived):
        return Exact()
    runs = (steps_between(each, case.begin + 1, None) for each in case.tolerance.perturbed)
    perturbed = [begun for each in runs if (begun := _begun(each)) is not None]
    return Derived(truth, perturbed)


def _begun(run: RunTrace) -> RunTrace | None:
    """The first client's variables as those of a run of one step."""
    client = run.clients[0]
    if client.start is None:
        return None
    whole = [each for each in client.start.variables if each.kind in _WHOLE]
    names = unique_names([each.name for each in whole])
    variables = tuple(each.as_reported(name) for name, each in zip(names, whole, strict=True))
    return RunTrace((ClientTrace(client.header, (Step(index=1, at=client.start.at, variables=variables),)),))


LAW = _BeginsAlike()
