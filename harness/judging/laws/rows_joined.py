"""Law: the parts of an example stay together: no feature comes with another example's label."""

from __future__ import annotations

from harness.judging.laws.protocol import FINDINGS_MAX, Case, Finding, Judgement, Law, judged

__all__ = ["LAW"]


class _RowsJoined(Law):
    id = "rows_joined"
    order = 51
    suffices = False

    def concerns(self, case: Case) -> bool:
        return any(step.seen is not None and step.seen.mixed for step in case.reference.clients[0].steps)

    def judge(self, case: Case) -> Judgement:
        """Read what the process that followed the run was given in place of its own examples."""
        steps = [(step.index, step.seen.mixed) for step in case.reference.clients[0].steps if step.seen is not None]
        known = [(index, mixed) for index, mixed in steps if mixed is not None]
        findings = [
            Finding(
                self.id,
                f"step {index}: {mixed} examples have a part that belongs to another one, such as its label",
                step=index,
                observable="examples",
            )
            for index, mixed in known
            if mixed
        ]
        return judged(self.id, len(known), tuple(findings[:FINDINGS_MAX]))


LAW = _RowsJoined()
