"""What a rule is: a model of one known mistake that predicts the numbers it would lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from harness.laws.protocol import Case

__all__ = ["Case", "Explanation", "Rule"]


@dataclass(frozen=True)
class Explanation:
    """The mistake that reproduces the observed numbers: what was found, the evidence, and the usual cure."""

    rule: str
    text: str


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
