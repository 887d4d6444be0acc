"""What a rule is: a model of one known mistake that predicts the numbers it would lead to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.judging.laws.protocol import Case

__all__ = ["Attempt", "AttemptingRule", "Case", "Explanation", "Rule"]


@dataclass(frozen=True)
class Explanation:
    """The mistake that reproduces the observed numbers: the evidence, and the usual cure.

    `cause` is, of a rule about examples, the id of the mistake in the input pipeline, see
    `harness.judging.explain.causes`.
    """

    rule: str
    evidence: str
    cure: str = ""
    cause: str | None = None

    @property
    def text(self) -> str:
        """Both in one."""
        return f"{self.evidence} {self.cure}".strip()


@dataclass(frozen=True)
class Attempt:
    """A rule's prediction held against the observed numbers.

    `ratio` is the worst error of the prediction over its bound, at most 1 where it reproduces the numbers;
    `unexplained` is the worst error over the mismatch that was to be explained: 0 explains it whole, 1 not at all.
    `cause` is that of the explanation, and so is `cure`, where it is not that of the rule.
    """

    rule: str
    text: str
    ratio: float
    unexplained: float
    cause: str | None = None
    cure: str | None = None


class Rule(Protocol):
    """One known mistake; each lives in its own file, in `RULES` (several when they share a model)."""

    @property
    def id(self) -> str:
        """The name in reports."""

    @property
    def priority(self) -> int:
        """When several rules fit, the lowest wins: causes before their effects, the specific before the general."""

    def explain(self, case: Case) -> Explanation | None:
        """An explanation if the rule reproduces what was observed, else None."""


@runtime_checkable
class AttemptingRule(Rule, Protocol):
    """A rule that can also tell how close its predictions came, and what it suspects where it cannot predict."""

    def attempts(self, case: Case) -> Iterable[Attempt]:
        """What the rule predicts for this case, and how far off that is."""

    def suspect(self, case: Case) -> Explanation | None:
        """An explanation by circumstantial evidence, whose text says so, else None."""
