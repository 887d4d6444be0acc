"""Law: the first step begins with what it begins with on one device; after a restart, with what was left before.

Steps are judged from what the run held, so that a weight which is drawn too large, a rate that grows with the number of
replicas before training begins, or a variable that a restore has left out, would show nowhere else.
"""

from __future__ import annotations

from harness.evidence.comparing import compare
from harness.evidence.cut import steps_between
from harness.evidence.observed import history, per_epoch
from harness.evidence.trace import ClientTrace, RunTrace, Start, Step, Variable
from harness.judging.laws._begun import begun
from harness.judging.laws._compare import first_per_value
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.tolerance import Derived, Exact

__all__ = ["LAW"]


class _BeginsAlike(Law):
    id = "begins_alike"
    order = 12
    suffices = False

    def concerns(self, case: Case) -> bool:
        # Where a coordinator trains, Keras runs no hooks of batches, in which callbacks set variables of their own.
        return not per_epoch(case.run, case.reference) and case.reference.clients[0].start is not None

    def judge(self, case: Case) -> Judgement:
        """Compare each variable that both have, of which every replica holds the whole."""
        starts = [trace.clients[0].start for trace in (case.run, case.reference)]
        known = [start for start in starts if start is not None]
        if len(known) < len(starts):
            return not_judged(self.id, "what the first step begins with is not known of both")
        clients = [case.run.clients[0], *[case.reference.clients[0]] * (1 + len(perturbed := _perturbed(case)))]
        variables = begun([*known, *perturbed])
        run, truth, *others = map(_as_step, clients, variables)
        step = case.begin + 1
        tolerance = Derived(truth, others) if isinstance(case.tolerance, Derived) else Exact()
        ours, theirs = (history(each, "variables").get(1, {}) for each in (run, truth))
        findings, compared, worst = [], 0, 0.0
        for name in theirs:
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


def _perturbed(case: Case) -> list[Start]:
    if not isinstance(case.tolerance, Derived):
        return []
    runs = (steps_between(each, case.begin + 1, None) for each in case.tolerance.perturbed)
    return [start for each in runs if (start := each.clients[0].start) is not None]


def _as_step(client: ClientTrace, variables: tuple[Variable, ...]) -> RunTrace:
    """Variables as those of a run of one step by a client."""
    return RunTrace((ClientTrace(client.header, (Step(index=1, at=0.0, variables=variables),)),))


LAW = _BeginsAlike()
