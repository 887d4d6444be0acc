"""What is found of a step, as data and in a line."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from harness.judging.laws.protocol import Finding

OWN_STATE = "own_state"
"""The law of what each replica keeps for itself, of which no trace of a run in one go tells."""

QUESTIONS = {"replicas_agree": "state", "finite": "computation", "draws": "draws"}
"""Of laws that are not about the computation."""


class StepFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way in which a step is wrong: `index`, `observed`, `expected` and `bound` are of its worst element.

    `replica` is the one whose fault it is, such as `worker:1` or `local:0 replica 1`, where that is known.
    """

    question: str
    law: str
    text: str
    variable: str | None = None
    task: str | None = None
    index: tuple[int, ...] | None = None
    observed: float | None = None
    expected: float | None = None
    bound: float | None = None
    replica: str | None = None

    @property
    def said(self) -> str:
        """What is wrong, in a line."""
        where = self.text if self.variable is None or self.index is None else f"{self.variable}{list(self.index)}"
        return f"{where}{self.numbers}{f', on {self.replica}' if self.replica else ''} [{self.law}]"

    @property
    def numbers(self) -> str:
        """What its worst element is, and what it should be, as far as that is known."""
        if self.observed is None or self.expected is None:
            return ""
        bound = f" (bound {self.bound:.1g})" if self.bound else ""
        return f" is {self.observed:.7g}, and not {self.expected:.7g}{bound}"


class StepJudged(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of one step: a line of `judged.jsonl`.

    Attributes:
        training: how often the job had been started before.
        step: its number, from 1.
        outcome: as of `Verdict`.
        worst_ratio: the largest error over its bound, of this step and those that were judged with it.
        findings: why it is inconsistent.
        why: it was not judged.
        given: what is taken as given where it is consistent, as of `Condition.text`.
        own: why what each replica keeps for itself was not judged, if there is some and it was not.
        seconds: that it took to be judged.
        by_digest: whether only the digests of its variables were looked at, which every step has.
        again: what replicas make of a wrong step once more on the machine where it ran, if this is that one: the same
            (`persistent`), or something else (`transient`).
        failed: what kept it from being judged, so that a later call tries again: the `run` that judges, or the `files`
            of its evidence, which are damaged or cannot be read.
    """

    training: int
    step: int
    outcome: str
    worst_ratio: float | None = None
    findings: tuple[StepFinding, ...] = ()
    why: str | None = None
    given: tuple[str, ...] = ()
    own: str | None = None
    seconds: float = 0.0
    by_digest: bool = False
    again: str | None = None
    failed: Literal["run", "files"] | None = None

    @property
    def key(self) -> tuple[int, int, str]:
        """What it is about: of a step that was computed nothing else, and of digests what they tell."""
        return self.training, self.step, next((each.law for each in self.findings), "") if self.by_digest else ""


def found_by(finding: Finding) -> StepFinding:
    """What a law has found."""
    fields: dict[str, Any] = {name: getattr(finding, name) for name in ("law", "variable", "task", "index")}
    # There it is a number among those that were judged together.
    fields["text"] = finding.text.removeprefix(f"step {finding.step}, ")
    numbers = {name: getattr(finding, name) for name in ("observed", "expected", "bound")}
    return StepFinding(QUESTIONS.get(finding.law, "computation"), **fields, **numbers)
