"""The rules that name a mistake, one file per model; a new file with `RULES` is a new rule."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from harness.explain.protocol import Case, Explanation, Rule

__all__ = ["Case", "Explanation", "Rule", "all_rules", "explain"]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule of this package, most specific first."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [
        importlib.import_module(f"{__name__}.{name}")
        for name in names
        if name != "protocol" and not name.startswith("_")
    ]
    rules: list[Rule] = [rule for module in modules for rule in module.RULES]
    return tuple(sorted(rules, key=lambda rule: (rule.priority, rule.id)))


def explain(case: Case) -> Explanation | None:
    """The most specific rule that reproduces an inconsistent run's numbers; None when none does."""
    return next((found for rule in all_rules() if (found := rule.explain(case)) is not None), None)
