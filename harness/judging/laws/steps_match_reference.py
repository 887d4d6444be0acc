"""Law: every client records the reference's steps, each once, and reaches the end if the reference does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.evidence.observed import epoch_ends, per_epoch
from harness.evidence.trace import ClientTrace
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged
from harness.judging.wording import first_ones


class _StepsMatchReference(Law):
    id = "steps_match_reference"
    order = 30
    suffices = False

    def judge(self, case: Case) -> Judgement:
        run, reference = case.run, case.reference
        if not run.observed_anything:
            return not_judged(self.id, "the run recorded no value at all")
        truth = reference.clients[0]
        expected = [step.index for step in truth.steps]
        epochs = per_epoch(run, reference)
        if epochs:
            expected = epoch_ends(reference)
        findings: list[Finding] = []
        if len(run.clients) != run.header.clients:
            tasks = ", ".join(client.header.task for client in run.clients)
            findings.append(Finding(self.id, f"{run.header.clients} clients ran, but only these left a trace: {tasks}"))
        for client in run.clients:
            numbers = [step.index for step in client.steps]
            if epochs:  # a client's own numbers count epochs
                numbers = [*expected[: len(numbers)], *numbers[len(expected) :]]
            findings += self._steps(client.header.task, numbers, expected, "epochs" if epochs else "steps")
            findings += self._end(client, truth)
        return judged(self.id, len(run.clients), tuple(findings))

    def _steps(self, task: str, numbers: Sequence[int], expected: Sequence[int], unit: str) -> list[Finding]:
        seen, wanted = Counter(numbers), Counter(expected)
        if seen == wanted:
            return []
        parts = [f"{task} recorded {len(numbers)} {unit}, the reference {len(expected)}"]
        for what, steps in (("missing", wanted - seen), ("unexpected", seen - wanted)):
            if steps:
                parts.append(f"{what}: {_listed(sorted(steps.elements()))}")
        first = min((wanted - seen) + (seen - wanted))
        return [Finding(self.id, "; ".join(parts), task, first, "steps", None, None, len(numbers), len(expected), 0.0)]

    def _end(self, client: ClientTrace, truth: ClientTrace) -> list[Finding]:
        if (client.final is None) == (truth.final is None):
            return []
        did, never = (
            (client.header.task, "the reference") if truth.final is None else ("the reference", client.header.task)
        )
        return [Finding(self.id, f"{did} called record.final, {never} never did", client.header.task, None, "steps")]


def _listed(steps: Sequence[int], shown_max: int = 8) -> str:
    return f"step{'s' if len(steps) > 1 else ''} {first_ones(steps, shown_max)}"


LAW = _StepsMatchReference()
