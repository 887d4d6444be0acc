"""What is said to be wrong with a case."""

from __future__ import annotations

from harness.judging.explain import Explanation, explain
from harness.judging.laws import Case


def explained(case: Case) -> Explanation:
    """The explanation, which there is."""
    found = explain(case)
    assert found is not None
    return found


def rule_of(case: Case) -> str | None:
    """The rule that explains it, if one does."""
    found = explain(case)
    return None if found is None else found.rule


def text_of(case: Case) -> str:
    """What the rule says that explains it."""
    return explained(case).text
