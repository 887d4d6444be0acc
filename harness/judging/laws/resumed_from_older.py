"""Law: a run that was started again goes on from the newest of its complete saves, so that no saved work is lost."""

from __future__ import annotations

from harness.judging.laws._older_saves import OlderRestore, older_restores
from harness.judging.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged


class _ResumedFromOlder(Law):
    id = "resumed_from_older"
    order = 36
    suffices = False

    def concerns(self, case: Case) -> bool:
        return case.interruption is not None

    def judge(self, case: Case) -> Judgement:
        """Judge each start of the job that restored something which the run itself had saved."""
        compared, found = (0, []) if case.saves is None else older_restores(case.saves)
        if not compared:
            return not_judged(self.id, "no restore of a save in record.directory was seen")
        assert case.interruption is not None
        unit = "epoch" if case.interruption.in_epochs else "step"
        return judged(self.id, compared, tuple(self._finding(older, unit) for older in found))

    def _finding(self, older: OlderRestore, unit: str) -> Finding:
        lost = older.newer_step - older.step
        first = older.step + 1
        which = f"{unit}s {first} to {older.newer_step} were" if lost > 1 else f"{unit} {first} was"
        text = (
            f"went on from {older.restored!r}, saved after {unit} {older.step}, although {older.newer!r}, saved after "
            f"{unit} {older.newer_step}, was complete when the job was started again: {which} lost"
        )
        who = older.tasks[0] if len(older.tasks) == 1 else None
        return Finding(self.id, text, who, first, "steps", None, None, older.step, older.newer_step, 0.0)


LAW = _ResumedFromOlder()
