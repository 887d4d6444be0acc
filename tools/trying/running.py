"""One trial from its program to a result: what Lockstep says of it, and whether that is so."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness import verify
from harness.cures import NoCure, try_cures
from harness.judging.verdict import Verdict
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import LockstepError
from tools.trying.cases import Trial

Outcome = Literal["consistent", "inconsistent", "abstained", "failed"]
Fate = Literal["right", "wrong", "none"]


class Culprit(msgspec.Struct, frozen=True):
    """The line that a verdict names."""

    file: str
    line: int
    source: str = ""


class Blame(msgspec.Struct, frozen=True):
    """What a verdict blames, and whether that is what is wrong."""

    culprit: Fate
    rule: Fate


class Result(msgspec.Struct, frozen=True):
    """One trial.

    `guilty` are the lines that may be blamed, `rules` the rules that may, `condition` is what may be said instead.
    `given` are the conditions of the verdict. `text` is the whole verdict or, of a failure, the message; `diagnostic`
    is what is shown of it without being asked. `cure` is the change that makes it consistent, empty if none is known,
    and None where none was looked for.
    """

    name: str
    style: str
    strategy: str
    mistake: str | None
    outcome: Outcome
    guilty: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()
    condition: str | None = None
    given: tuple[str, ...] = ()
    rule: str | None = None
    culprit: Culprit | None = None
    text: str = ""
    diagnostic: str = ""
    cure: str | None = None
    seconds: float = 0.0

    @property
    def blame(self) -> Blame:
        """Whether line and rule are right; of a right program whatever is named is wrong."""
        rule: Fate = "none" if self.rule is None else "right" if self.rule in self.rules else "wrong"
        if self.culprit is None:
            return Blame("none", rule)
        here = Path(self.culprit.file).stem == self.style and self.culprit.line in self.guilty
        return Blame("right" if here else "wrong", rule)

    @property
    def is_condition(self) -> bool:
        """Whether the verdict says of what is wrong that it is given, and the catalogue knows that it may."""
        return self.outcome == "consistent" and self.condition is not None and self.condition in self.given


def as_expected(result: Result) -> bool:
    """Whether what is wrong was found, and named rightly if at all, and what is right was not accused."""
    if result.mistake is None:
        return result.outcome == "consistent" and result.blame == Blame("none", "none")
    found = result.outcome == "inconsistent" or result.is_condition
    return found and "wrong" not in (result.blame.culprit, result.blame.rule)


def relabelled(result: Result, trial: Trial) -> Result:
    """An earlier result, with what the catalogue and the program's file say by now."""
    known = {"guilty": trial.guilty, "rules": trial.rules, "condition": trial.condition}
    return msgspec.structs.replace(result, mistake=trial.mistake, **known)


def result_of(trial: Trial, explain: bool, timeout: float, *, fix: bool = False) -> Result:
    """Verify a program and compare what is said of it with the catalogue.

    Args:
        trial: the program.
        explain: whether more runs may be made to find out what is wrong.
        timeout: seconds for each of its runs.
        fix: whether cures are tried where it is inconsistent.
    """
    began = time.monotonic()
    result = relabelled(Result(trial.name, trial.style, trial.strategy, trial.mistake, "failed"), trial)
    try:
        verdict = verify(trial.program, trial.strategy, explain=explain, timeout=timeout)
    except LockstepError as error:
        return msgspec.structs.replace(result, text=str(error), seconds=time.monotonic() - began)
    return msgspec.structs.replace(
        result,
        outcome=verdict.outcome,
        given=tuple(condition.code for condition in verdict.conditions),
        rule=None if verdict.explanation is None else verdict.explanation.rule,
        culprit=_culprit(verdict),
        text=str(verdict),
        diagnostic=verdict.text(),
        cure=_cure(verdict, trial, timeout) if fix and verdict.outcome == "inconsistent" else None,
        seconds=time.monotonic() - began,
    )


def _cure(verdict: Verdict, trial: Trial, timeout: float) -> str:
    def changed(file: Path) -> Program:
        return Program.of(f"{file}:{trial.function}")

    asked = {"timeout": timeout, "explain": False, "prove": False}
    found = try_cures(verdict, trial.file, changed, strategy_case(trial.strategy), **asked)
    return "" if isinstance(found, NoCure) else found.diff


def _culprit(verdict: Verdict) -> Culprit | None:
    found: Any = getattr(verdict, "culprit", None)
    if found is None or found.file is None or found.line is None:
        return None
    return Culprit(str(found.file), int(found.line), (found.source or "").strip())
