"""Law: the first step begins with what it begins with on one device; after a restart, with what was left before.

Steps are judged from what the run held, so that a weight which is drawn too large, a rate that grows with the number of
replicas before training begins, or a variable that a restore has left out, would show nowhere else. Nor would what the
program does between steps, and after the last one, where each is looked at as soon as it has ended, since the process
may be killed then.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from harness.evidence.comparing import compare
from harness.evidence.observed import history, per_epoch
from harness.evidence.step_range import steps_between
from harness.evidence.trace import ClientTrace, RunTrace, Start, Step, Variable
from harness.judging.laws._compare import first_per_value
from harness.judging.laws._initial_values import initial_values
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.tolerance import DerivedTolerance, ExactTolerance


class _BeginsAlike(Law):
    id = "begins_alike"
    order = 12
    suffices = False

    def concerns(self, case: Case) -> bool:
        # Where a coordinator trains, Keras runs no hooks of batches, in which callbacks set variables of their own.
        # A step that is taken out of a training begins with what the training has made.
        single = case.run.clients[0].header.are_single
        return not (single or per_epoch(case.run, case.reference)) and case.reference.clients[0].start is not None

    def judge(self, case: Case) -> Judgement:
        """Compare each variable that both have, of which every replica holds the whole.

        Before later steps, where that is known, those are compared that something in between has changed.
        """
        starts = [case.run.clients[0].start, _begun(case, case.reference)]
        known = [start for start in starts if start is not None]
        if len(known) < len(starts):
            return not_judged(self.id, "what the first step begins with is not known of both")
        noisy = _perturbed(case)
        compared, findings, worst = self._held(case, known, [_begun(case, each) for each in noisy], None)
        for later in (each for each in case.run.clients[0].starts if not each.lead):
            step = case.begin + 1 + later.step - known[0].step
            begun_with = [_before(each.clients[0], step) for each in (case.reference, *noisy)]
            if begun_with[0] is not None:
                moved = _moved(case.run.clients[0], later, step) | _moved(
                    case.reference.clients[0], begun_with[0], step
                )
                more = self._held(case, [later, begun_with[0]], begun_with[1:], step, moved)
                compared, findings, worst = compared + more[0], findings + more[1], max(worst, more[2])
        if not compared:
            return not_judged(self.id, "no variable has the same name and shape on one device")
        return judged(self.id, compared, first_per_value(findings) if findings else (), worst)

    def _held(
        self,
        case: Case,
        known: Sequence[Start],
        noisy: Sequence[Start | None],
        step: int | None,
        moved: Container[str] | None = None,
    ) -> tuple[int, list[tuple[Finding, float]], float]:
        """How many variables were compared before a step, what is wrong of them, and the worst ratio.

        Args:
            case: see above.
            known: what run and reference begin with.
            noisy: what reruns with noise begin with.
            step: which one, None for the first.
            moved: the names of those that are compared, None for all.
        """
        clients = [case.run.clients[0], *[case.reference.clients[0]] * (1 + len(noisy))]
        variables = initial_values([*known, *(each for each in noisy if each is not None)])
        run, truth, *others = map(_as_step, clients, variables)
        tolerance = (
            DerivedTolerance(truth, others) if isinstance(case.tolerance, DerivedTolerance) else ExactTolerance()
        )
        ours, theirs = (history(each, "variables").get(1, {}) for each in (run, truth))
        findings, compared, worst = [], 0, 0.0
        for name in theirs:
            if moved is not None and name not in moved:
                continue
            found = compare(ours[name], theirs[name], tolerance.bound("variables", name, 1))
            compared += 1
            worst = max(worst, found.ratio)
            if found.ratio > 1:
                at = f"{name!r}{list(found.index) if found.index else ''}"
                number = case.begin + 1 if step is None else step
                last = max((each.index for each in case.run.clients[0].steps), default=number)
                when = f"before step {number}" if number <= last else f"at the end, after step {last}"
                finding = Finding(
                    law=self.id,
                    text=f"{when}, variable {at}: {found.text}",
                    task=case.run.clients[0].header.task,
                    step=number,
                    observable="start",
                    variable=name,
                    observed=found.observed,
                    expected=found.expected,
                    bound=found.bound if found.observed is not None else None,
                )
                findings.append((finding, found.ratio))
        return compared, findings, worst


def _begun(case: Case, trace: RunTrace) -> Start | None:
    """What a reference began with: where a part begins the training anew, what its first gradients were taken from."""
    client = trace.clients[0]
    return client.start if case.interruption is None or case.begin else client.trained_from


def _perturbed(case: Case) -> list[RunTrace]:
    if not isinstance(case.tolerance, DerivedTolerance):
        return []
    runs = (steps_between(each, case.begin + 1, None) for each in case.tolerance.perturbed)
    return [each for each in runs if each.clients[0].start is not None]


def _before(client: ClientTrace, step: int) -> Start | None:
    """What a step began with."""
    return next((each for each in client.starts if each.step == step and not each.lead), None)


def _moved(client: ClientTrace, start: Start, step: int) -> set[str]:
    """The variables that a step begins with otherwise than the step before has left them."""
    left = next((each.variables or () for each in client.steps if each.index == step - 1), ())
    held = {each.name: each.value for each in left}
    (now,) = initial_values([start])
    return {each.name for each in now if each.name in held and each.value != held[each.name]}


def _as_step(client: ClientTrace, variables: tuple[Variable, ...]) -> RunTrace:
    """Variables as those of a run of one step by a client."""
    return RunTrace((ClientTrace(client.header, (Step(index=1, at=0.0, variables=variables),)),))


LAW = _BeginsAlike()
