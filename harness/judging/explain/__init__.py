"""The rules that name a mistake, one file per model; a new file with `RULES` is a new rule."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import TypeVar

from _lockstep.kinds import kinds_of
from harness.judging.explain._replica_values import readings
from harness.judging.explain.protocol import Attempt, AttemptingRule, Case, Explanation, Rule
from harness.judging.placed_work import placed_by_hand

__all__ = ["Attempt", "Case", "Explanation", "Rule", "all_rules", "closest", "explain", "says"]

_Answer = TypeVar("_Answer")

_CLOSE = 0.5
"""A prediction that leaves more than this share of the mismatch unexplained is not worth showing."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this package, most specific first."""
    rules: list[Rule] = [rule for module in kinds_of(__name__) for rule in module.RULES]
    return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.id)))


def says(rule: str) -> str:
    """What a rule says of a run: the first line of its file."""
    module = next(module for module in kinds_of(__name__) if any(each.id == rule for each in module.RULES))
    return (module.__doc__ or "").partition("\n")[0].partition(": ")[2].rstrip(".")


def explain(case: Case, *, given: str | None = None) -> Explanation | None:
    """The most specific rule that reproduces an inconsistent run's numbers, else the first with evidence, else None.

    A cause that is `given` is a condition of the verdict, and explains nothing.

    A rule that fails costs its own explanation, with a warning, and never the verdict that was to be explained. None
    speaks of what a program divides by itself: they are of replicas. What is reported before closures are done may be
    anything.
    """
    if placed_by_hand(case.run) or any(client.counters.unjoined for client in case.run.clients):
        return None
    read = readings(case)
    proofs = [(rule.id, rule.explain) for rule in all_rules()]
    suspicions = [(rule.id, rule.suspect) for rule in _attempting()]
    for several in (proofs, suspicions):
        for each in read:
            for name, ask in several:
                if (found := _asked(name, ask, each)) is not None and (given is None or found.cause != given):
                    return found
    return None


def closest(case: Case) -> Attempt | None:
    """Of the predictions that do not reproduce the numbers, the one that explains most of the mismatch."""
    attempts = [
        attempt
        for each in readings(case)
        for rule in _attempting()
        for attempt in _asked(rule.id, rule.attempts, each) or ()
    ]
    near = [attempt for attempt in attempts if attempt.unexplained < _CLOSE]
    return min(near, key=lambda attempt: attempt.unexplained, default=None)


def _attempting() -> list[AttemptingRule]:
    return [rule for rule in all_rules() if isinstance(rule, AttemptingRule)]


def _asked(name: str, ask: Callable[[Case], _Answer], case: Case) -> _Answer | None:
    try:
        return ask(case)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a rule, the verdict stands
        warnings.warn(f"explanation rule {name} failed: {error!r}", RuntimeWarning, stacklevel=3)
        return None
