"""Rule: a fault of the plan changed a number (`nan`, `bitflip`), and the numbers are wrong from there on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.evidence.observed import OBSERVABLES, per_epoch
from harness.judging.explain._prediction import Predicting, evident
from harness.judging.explain._view import CaseView
from harness.judging.explain.protocol import Attempt, Rule
from harness.judging.laws import judge_all
from harness.judging.laws.protocol import StruckAt

_ID = "corrupted_by_fault"
_CURE = (
    "It is the plan that made these numbers wrong: the findings show how far one wrong number spreads. To judge the "
    "program, verify it without this fault."
)
# What does not follow from any variable or gradient.
_ELSEWHERE = frozenset({"examples", "steps", "updates"})
# Of a step, what was computed before its gradients.
_BEFORE_GRADIENTS = frozenset({"loss", "metrics", "predictions"})
_SHOWN_MAX = 4


@dataclass(frozen=True)
class _First:
    """Where the laws first find something wrong: the step, None at the end of the run, and which observables."""

    step: int | None
    observables: frozenset[str]

    @property
    def at(self) -> float:
        """The step, with the end after all of them."""
        return _at(self.step)


def _at(step: int | None) -> float:
    return math.inf if step is None else step


def _first(view: CaseView) -> _First | None:
    """None if nothing is wrong, or first of all something that does not depend on what a program computes."""
    found = [finding for law in judge_all(view.case) for finding in law.findings if finding.observable is not None]
    findings = [finding for finding in found if finding.observable not in view.case.told]
    if not findings:
        return None
    step = min((finding.step for finding in findings), key=_at)
    there = frozenset(str(finding.observable) for finding in findings if finding.step == step)
    return None if there & _ELSEWHERE else _First(step, there)


def _attempts(view: CaseView) -> Iterable[Attempt | None]:
    """The numbers are right up to the change, and wrong in the first record that can show it, where it was made."""
    first = _first(view) if view.case.struck else None
    if first is None:
        return
    found = [each for each in _before(view, first) if _due(view, each) == first.at and _fits(view, each, first)]
    if found:
        where = "at the end" if first.step is None else f"at step {first.step}"
        wrong = _wrong_values(view, first.step) or ", ".join(sorted(first.observables))
        yield evident(
            _ID,
            f"{_changes(found)} Nothing is wrong before; the first that can show it is recorded {where}, and there "
            f"{wrong} differ.{_reach(view)}",
        )


def _evidence(view: CaseView) -> Iterable[Attempt | None]:
    """The numbers are right up to the change, and wrong some time after it."""
    first = _first(view) if view.case.struck else None
    found = [] if first is None else _before(view, first)
    if first is not None and found:
        where = "only at the end" if first.step is None else f"from step {first.step} on"
        yield evident(
            _ID,
            f"{_changes(found)} The numbers are wrong {where}, and no other rule reproduces them: that may have come "
            f"of this change, which the records do not prove.",
        )


def _before(view: CaseView, first: _First) -> list[StruckAt]:
    """What was changed before anything was wrong. What comes before the gradients of a step is wrong before these."""
    return [
        each
        for each in view.case.struck
        if each.after < first.at
        and not (_is_own_step(view, each, first.step) and first.observables & _BEFORE_GRADIENTS)
    ]


def _is_own_step(view: CaseView, strike: StruckAt, step: int | None) -> bool:
    """Whether the strike changed a gradient of this very step; a record of an epoch is one of many steps."""
    whole = not per_epoch(view.case.run, view.case.reference)
    return whole and strike.struck.target != "variable" and step == strike.after + 1


def _due(view: CaseView, strike: StruckAt) -> float:
    """The first moment whose record can show the change."""
    for step in view.moments:
        if _at(step) <= strike.after:
            continue
        shown = [name for name in OBSERVABLES if view.names(name, step)]
        if _is_own_step(view, strike, step):
            shown = [name for name in ("gradients", "variables") if _named(view, strike, name, step)]
        if shown:
            return _at(step)
    return math.inf


def _fits(view: CaseView, strike: StruckAt, first: _First) -> bool:
    """Whether what was changed is itself wrong there, if that was recorded, by a change that can be seen."""
    import numpy as np

    own = {what: _named(view, strike, what, first.step) for what in ("gradients", "variables")}
    if strike.struck.target == "variable":
        names = set(own["variables"])
        wrong = names.intersection(view.wrong("variables", first.step))
        seen = any(np.any(strike.struck.size > view.bound("variables", name, first.step)) for name in wrong)
        # Copies are compared bit by bit, so that what is right within the bound can be seen as well.
        return seen or bool(names.intersection(view.drifted(first.step)) - wrong) or not names
    if not _is_own_step(view, strike, first.step) or not any(own.values()):
        return True
    if own["gradients"]:
        return bool(set(view.wrong("gradients", first.step)).intersection(own["gradients"]))
    return bool({*view.wrong("variables", first.step), *view.drifted(first.step)}.intersection(own["variables"]))


def _named(view: CaseView, strike: StruckAt, observable: str, step: int | None) -> list[str]:
    """The recorded values of the struck variable; all gradients if none has its name, since programs may omit names."""
    names = view.names(observable, step)
    found = [name for name in names if _same(name, strike.struck.variable)]
    return names if not found and observable == "gradients" else found


def _same(one: str, other: str) -> bool:
    """Keras 3 records a path, `dense/kernel`, where TensorFlow has a name, `kernel:0`."""
    short, long = sorted((name.partition("#")[0].partition(":")[0] for name in (one, other)), key=len)
    return short == long or long.endswith(f"/{short}")


def _changes(strikes: Sequence[StruckAt]) -> str:
    return " ".join(map(_change, strikes))


def _change(strike: StruckAt) -> str:
    struck, step = strike.struck, strike.after
    when = f"in step {step + 1}" if struck.target != "variable" else f"after step {step}" if step else "before step 1"
    what = f"variable {struck.variable!r}"
    what = f"the gradient of {what}" if struck.target == "gradient" else what
    return (
        f"The fault {struck.fault} changed a number in {struck.task} {when}: element {struck.element} of {what} on its "
        f"replica {struck.replica} was {struck.before} and became {struck.after}."
    )


def _wrong_values(view: CaseView, step: int | None) -> str:
    """`loss; variables 'w', 'b'`."""
    said = []
    for what in OBSERVABLES:
        names = view.wrong(what, step)
        if what == "variables":
            names = [*names, *(name for name in view.drifted(step) if name not in names)]
        if names:
            more = ", ..." if len(names) > _SHOWN_MAX else ""
            said.append(what if what == "loss" else f"{what} {', '.join(map(repr, names[:_SHOWN_MAX]))}{more}")
    return "; ".join(said)


def _reach(view: CaseView) -> str:
    """How many variables are wrong where they were recorded last."""
    steps = [step for step in view.moments if view.names("variables", step)]
    if not steps:
        return ""
    names = view.names("variables", steps[-1])
    wrong = {*view.wrong("variables", steps[-1]), *view.drifted(steps[-1])}
    where = "At the end" if steps[-1] is None else f"At step {steps[-1]}"
    return f" {where} {len(wrong)} of {len(names)} variables are wrong."


RULES: tuple[Rule, ...] = (Predicting(_ID, 4, _attempts, _evidence, cure=_CURE),)
