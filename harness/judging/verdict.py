"""The outcome of one verified run: truthy when consistent, readable as an assertion message, and exact as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from harness.judging.diagnostics import details_of, diagnostic_of, text_of
from harness.judging.facts import WIDTH, Facts, Outcome
from harness.judging.laws.protocol import Finding, judged

__all__ = ["Outcome", "Verdict", "broken_by"]


@dataclass(frozen=True, repr=False)
class Verdict(Facts):
    """What is known of one program under one strategy, for people and for their tools."""

    def __bool__(self) -> bool:
        return self.consistent

    def __repr__(self) -> str:
        """One line: what pytest shows of `assert verify(...)`, above the full text."""
        return f"<Verdict {self.summary}>"

    def __str__(self) -> str:
        short = () if self.outcome == "consistent" else (text_of(self), "")
        return "\n".join((*short, details_of(self)))

    def text(self, width: int = WIDTH, *, verbose: bool = False, paint: Callable[[str, str], str] | None = None) -> str:
        """In lines of `width` characters at most: the diagnostic, with `verbose` all that is known.

        `paint` makes a text of a style, see `harness.judging.diagnostics.text.Paint`.
        """
        details = ("", details_of(self, width, verbose=True)) if verbose else ()
        return "\n".join((text_of(self, width, paint), *details))

    @property
    def headline(self) -> str:
        """The first line of the diagnostic, and where it points; that it is consistent, if it is."""
        found = diagnostic_of(self)
        return self.summary if found is None else f"{found.head} --> {found.where}"

    @property
    def summary(self) -> str:
        """One line: the outcome, the rule that explains it and the culprit's line if there are any, and the first
        divergence.
        """
        said = "is not judged" if self.outcome == "abstained" else f"is {self.outcome}"
        why = None if self.explanation is None else self.explanation.rule
        first = None if self.first_divergence is None else self.first_divergence.text
        line = None if self.culprit is None else self.culprit.where
        batch = None if (shown := self.counterexample) is None else shown.text
        found = filter(None, (why, line, first, batch, self.why_abstained))
        return "; ".join([f"{self.program} under {self.under} {said}", *found])

    def to_json(self) -> dict[str, Any]:
        """The object of the command line's `--json`; non-finite numbers become the strings "inf", "-inf", "nan".

        `ledger` (the lines of the table), `interrupted`, `faults`, `links`, `placement` (by task: `replicas`, `there`,
        `variables`, `peak_bytes`), `abstained`, `counted`, `notes` and the explanation's `cause` are there only if
        there are any; `forced` and `rehearsed` only if true; `culprit` (`file`, `line`, `source`, `op`, `layer`,
        `relation`, `expected`, `inputs`, `step`; null if none was found) and `looked` (`why_not`, `seconds`) only where
        a step was watched;
        `wrong_steps` and `right_steps`, how many those are, only where each step was judged by itself; `proof`
        (`status`, `conditions`, `culprit`, `suspects`, `open_operations`, `reasons`, `values`, `seconds`) only where it
        was asked for; `course` (`steps`, `observed` and `expected` losses, `shares` of replicas at `step`) where there
        is something to show; `environments` (`run` and `reference`, the versions of each, and `reference_python`) only
        where the reference is of another environment.
        """
        first = self.first_divergence
        keys = ("step", "observable", "observed", "expected", "bound", "variable", "index")
        found = ("law", "text", "task", "step", "observable", "variable")
        plain: dict[str, Any] = {
            "program": self.program,
            "strategy": self.strategy,
            "consistent": self.consistent,
            "first_divergence": None if first is None else {key: getattr(first, key) for key in keys},
            "findings": [{key: getattr(finding, key) for key in found} for finding in self.findings],
            "explanation": None
            if (why := self.explanation) is None
            else {"rule": why.rule, "text": why.text, "cure": why.cure},
            "tasks": self.tasks,
            "seconds": self.seconds,
            "laws": [
                {"law": law.law, "status": law.status, "reason": law.reason, "worst_ratio": law.worst_ratio}
                for law in self.judgements
            ],
            "tier": self.tolerance,
            "resolution": {name: found.to_json() for name, found in self.resolution.items()},
            "diagnostic": None if (told := diagnostic_of(self)) is None else msgspec.to_builtins(told),
        }
        if (abstained := self.why_abstained) is not None:
            plain["abstained"] = abstained
        if why is not None and why.cause is not None:
            plain["explanation"] |= {"cause": why.cause}
        if self.ledger is not None:
            plain["ledger"] = self.ledger.splitlines()
        for key in ("interrupted", "faults", "links", "placement", "counted", "notes", "forced", "rehearsed"):
            if (value := getattr(self, key)) not in (None, (), False):
                plain[key] = value
        if self.looked is not None:
            plain |= self.looked.to_json()
        if self.alone is not None:
            plain |= {"wrong_steps": self.alone.wrong, "right_steps": self.alone.right}
        if self.claim is not None:
            plain["proof"] = self.claim.to_json()
        if self.course is not None:
            plain["course"] = self.course.to_json()
        if self.conditions:
            plain["conditions"] = [{"code": each.code, "text": each.text} for each in self.conditions]
        if self.environments is not None:
            plain["environments"] = self.environments.to_json()
        return {key: _strict(value) for key, value in plain.items()}


def _strict(value: Any) -> Any:
    """The value in strict JSON: no NaN, no infinities, no tuples."""
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value


def broken_by(verdict: Verdict, findings: Iterable[Finding]) -> Verdict:
    """The verdict with findings of runs that its laws have not read, each put to its law."""
    by_law: dict[str, tuple[Finding, ...]] = {}
    for each in findings:
        by_law[each.law] = (*by_law.get(each.law, ()), each)
    known = {law.law: law for law in verdict.judgements}
    broken = {name: judged(name, max(1, known[name].compared) if name in known else 1, by_law[name]) for name in by_law}
    return replace(verdict, judgements=tuple({**known, **broken}.values()))
