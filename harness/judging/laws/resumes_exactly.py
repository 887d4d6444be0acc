"""Law: an interrupted and resumed run does every step of the reference, and what it does again it has undone before."""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.comparing import compare, place
from harness.evidence.observed import history
from harness.judging.interruption import Interruption
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged


class _ResumesExactly(Law):
    id = "resumes_exactly"
    order = 35
    suffices = True
    counts = True

    def concerns(self, case: Case) -> bool:
        return case.interruption is not None

    def judge(self, case: Case) -> Judgement:
        """Judge how many steps were recorded, where the run resumed, and the state after its first resumed step."""
        interruption = case.interruption
        assert interruption is not None
        findings = [*self._number(interruption), *self._restart(interruption)]
        compared, wrong = _first_step(case)
        if wrong:
            findings.append(self._not_undone(interruption, wrong, compared))
        return judged(self.id, 1 + compared, tuple(findings))

    def _number(self, found: Interruption) -> Iterator[Finding]:
        """Whether steps are missing between the interruption and the end, or there are more than the whole run has."""
        unit = "epochs" if found.in_epochs else "steps"
        recorded = f"{found.recorded} {unit}" if found.recorded else "nothing"
        if (lost := found.begins_after - found.at_step) > 0:
            text = (
                f"killed after step {found.at_step} of {found.total}, the resumed run recorded {recorded}: "
                f"{lost} step{'s were' if lost > 1 else ' was'} never done"
            )
            yield self._counted(found, text)
        elif found.begins_after < 0:
            text = f"the resumed run recorded {recorded}, more than the whole reference"
            yield self._counted(found, text)

    def _restart(self, found: Interruption) -> Iterator[Finding]:
        if found.resumed_at > 0:
            return
        text = f"killed after step {found.at_step}, the run began again at step 1: nothing was resumed; {found.kept}"
        yield Finding(self.id, text, step=1, observable="steps")

    def _counted(self, found: Interruption, text: str) -> Finding:
        expected = found.total - found.at_step
        return Finding(self.id, text, None, found.at_step + 1, "steps", None, None, found.recorded, expected, 0.0)

    def _not_undone(self, found: Interruption, wrong: list[str], compared: int) -> Finding:
        again = found.at_step - found.resumed_at
        these = f"steps {found.resumed_at + 1} to {found.at_step} were" if again > 1 else f"step {found.at_step} was"
        done = f" ({these} done again)" if again > 0 else ""
        text = (
            f"resumed at step {found.resumed_at}{done}, {len(wrong)} of {compared} variables differ from the "
            f"uninterrupted run after the first resumed step: {wrong[0]}"
        )
        return Finding(self.id, text, step=found.resumed_at + 1)


def _first_step(case: Case) -> tuple[int, list[str]]:
    """The number of variables compared after the first resumed step, and a text for each that differs."""
    ours = history(case.run, "variables", aligned_to=case.reference)
    truth = history(case.reference, "variables")
    first = next((step for step in ours if step is not None and step in truth), None)
    if first is None:
        return 0, []
    wrong = []
    names = [name for name in truth[first] if name in ours[first]]
    for name in names:
        found = compare(ours[first][name], truth[first][name], case.tolerance.bound("variables", name, first))
        if found.ratio > 1:
            wrong.append(f"{place(first, 'variables', name, found.index)}: {found.text}")
    return len(names), wrong


LAW = _ResumesExactly()
