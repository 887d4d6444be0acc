"""Law: per step and overall, all replicas together consume exactly the reference's examples, each as often."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.consumed import by_step, recorders
from harness.laws.protocol import Case, Finding, Judgement, Law, judged, not_judged

__all__ = ["LAW"]

_SHOWN_MAX = 8


@dataclass(frozen=True)
class _ExamplesMatchReference:
    id: str = "examples_match_reference"
    order: int = 40

    def judge(self, case: Case) -> Judgement:
        ours, silent = recorders(case.run)
        if not recorders(case.reference)[0]:
            return not_judged(self.id, "the reference recorded no examples")
        if not ours:
            return not_judged(self.id, "the run recorded no examples")
        if silent:
            return not_judged(self.id, f"only {', '.join(ours)} recorded examples, not {', '.join(silent)}")
        pairs = by_step(case)
        wrong = [(step, seen, truth) for step, seen, truth in pairs if seen != truth]
        findings = []
        if wrong:
            step, seen, truth = wrong[0]
            more = f" [{len(wrong)} of {len(pairs)} steps differ]" if len(pairs) > 1 else ""
            findings.append(self._finding(step, f"step {step}", seen, truth, more))
            seen = sum((seen for _, seen, _ in pairs), Counter[int]())
            truth = sum((truth for _, _, truth in pairs), Counter[int]())
            if seen != truth and len(pairs) > 1:
                findings.append(self._finding(None, "over all steps", seen, truth, ""))
            elif len(pairs) > 1:
                findings[0] = self._finding(
                    step, f"step {step}", *wrong[0][1:], f"{more}; over all steps the examples are the same"
                )
        return judged(self.id, len(pairs), tuple(findings))

    def _finding(self, step: int | None, when: str, seen: Counter[int], truth: Counter[int], more: str) -> Finding:
        """The finding's numbers are those of its first wrong example: how often it was and should have been seen."""
        missing, excess = truth - seen, seen - truth
        parts = [f"{when}: {seen.total()} examples, expected {truth.total()}"]
        if missing:
            parts.append(f"missing {_listed(missing)}")
        if excess:
            parts.append(f"too many {_listed(excess)}")
        example = min(missing or excess)
        return Finding(
            law=self.id,
            text="; ".join(parts) + more,
            step=step,
            observable="examples",
            index=(example,),
            observed=seen[example],
            expected=truth[example],
            bound=0.0,
        )


def _listed(ids: Counter[int]) -> str:
    """`3 ids: 17, 20 x2, 31`, where x2 means two too few or too many."""
    shown = [str(key) if ids[key] == 1 else f"{key} x{ids[key]}" for key in sorted(ids)[:_SHOWN_MAX]]
    more = f", and {len(ids) - _SHOWN_MAX} more" if len(ids) > _SHOWN_MAX else ""
    return f"{len(ids)} id{'s' if len(ids) > 1 else ''}: {', '.join(shown)}{more}"


LAW: Law = _ExamplesMatchReference()
