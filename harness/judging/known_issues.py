"""The registry of upstream defects: where each applies, its exact symptom, and the proof that it is upstream's."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from harness.evidence.uses import Use
from harness.judging.verdict import Verdict
from simulator import RunFailed, UsageError

_FILE = Path(__file__).with_name("known_issues.toml")
# Of a checkout: an installed package is without docs/.
_PROGRAMS = Path(__file__).parents[2] / "docs" / "upstream"


class Symptom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must be seen: an exception class with a fragment of its message, just these laws broken, or an explanation.

    Or a `condition`, by its code: then the verdict need not be inconsistent.

    `within` is a part of a place that has to be in the task's traceback, or in its stacks where it hangs, since other
    programs end with the same message.

    `laws` are all the laws that break: one more broken law is something new, one less is something repaired.
    """

    exception: str | None = None
    message: str | None = None
    within: str | None = None
    laws: tuple[str, ...] = ()
    rule: str | None = None
    condition: str | None = None

    def fits_failure(self, failure: BaseException) -> bool:
        """Whether a failed run shows this exception in any of its tasks."""
        if self.exception is None or not isinstance(failure, RunFailed):
            return False
        return any(
            self.exception in cause.bases
            and (self.message or "") in f"{cause.message}\n{cause.traceback}"
            and (self.within or "") in f"{cause.traceback}\n{failure.stacks.get(cause.task, '')}"
            for cause in failure.causes
        )

    def fits_verdict(self, verdict: Verdict) -> bool:
        """Whether an inconsistent verdict shows just these laws broken, or this explanation; or any, this condition."""
        if self.condition is not None:
            return any(each.code == self.condition for each in verdict.conditions)
        if verdict.consistent or self.exception is not None:
            return False
        if self.rule is not None and self.rule != _rule_of(verdict):
            return False
        return not self.laws or {finding.law for finding in verdict.findings} == set(self.laws)

    def __str__(self) -> str:
        if self.exception is not None:
            within = f" within {self.within!r}" if self.within else ""
            return (f"{self.exception} with {self.message!r}" if self.message else self.exception) + within
        if self.condition is not None:
            return f"condition {self.condition}"
        wanted = [f"broken: {', '.join(self.laws)}"] if self.laws else []
        return " and ".join([*wanted, f"rule {self.rule}"] if self.rule is not None else wanted)


def _rule_of(verdict: Verdict) -> str | None:
    """The rule that explains a verdict, or the kind of mistake that the values at its line prove."""
    if verdict.explanation is not None:
        return verdict.explanation.rule
    return None if verdict.looked is None or verdict.looked.kind is None else verdict.looked.kind.code


class Otherwise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the same defect shows with some of the affected versions instead."""

    packages: dict[str, str]
    symptom: Symptom

    def __str__(self) -> str:
        return f"{self.symptom} ({', '.join(f'{name} {specifier}' for name, specifier in self.packages.items())})"


class KnownIssue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One upstream defect. It covers the cells where all of strategy, loop, hardware and package versions match.

    Attributes:
        id: short name, as in `@pytest.mark.known_issue(id)`.
        summary: one line.
        strategies: `fnmatch` patterns over strategy names.
        loops: kinds of training loop; empty means that only the marker applies this issue.
        hardware: `fnmatch` patterns over what the strategy computes on, as of `--hardware`.
        packages: PEP 440 specifiers of affected versions.
        symptom: what exactly is seen.
        otherwise: what is seen instead with some of these versions.
        reference: public issue, or file and line of the responsible source.
        threads: further public threads that tell of it, or of the code that is its cause.
        cure: what a program can do today; where there is nothing, why, and what was tried.
        meets: uses by one of which a program meets it, each of several things together; none where nothing tells.
        cured_by: another program, which docs/upstream/ID.cure.py shows; another version; or nothing.
    """

    id: str
    summary: str
    symptom: Symptom
    reference: str
    strategies: tuple[str, ...] = ("*",)
    loops: tuple[str, ...] = ()
    hardware: tuple[str, ...] = ("*",)
    packages: dict[str, str] = {}
    otherwise: tuple[Otherwise, ...] = ()
    threads: tuple[str, ...] = ()
    cure: str = ""
    meets: tuple[tuple[Use, ...], ...] = ()
    cured_by: Literal["program", "version", "nothing"] = "nothing"

    @property
    def way_out(self) -> str:
        """The cure as a part of a sentence, or why there is none."""
        said = "no way out is known" if self.cured_by == "nothing" else "way out"
        return f"{said}: {self.cure or 'none was looked for'}"

    def cured_program(self) -> str:
        """The source of the program that is made right, or where to find it; empty where no program is the cure."""
        if self.cured_by != "program":
            return ""
        path = _PROGRAMS / f"{self.id}.cure.py"
        return path.read_text("utf-8") if path.exists() else f"# docs/upstream/{path.name} in a checkout of Lockstep"

    def affects_installed_versions(self) -> bool:
        """Whether all packages are installed in affected versions."""
        return _are_installed(self.packages)

    @property
    def symptom_here(self) -> Symptom:
        """What is seen with the versions that are installed."""
        return next((each.symptom for each in self.otherwise if _are_installed(each.packages)), self.symptom)

    def affects(self, hardware: str) -> bool:
        """Whether it is seen where a strategy computes on this hardware, in the versions that are installed."""
        return self.affects_installed_versions() and any(
            fnmatch.fnmatchcase(hardware, pattern) for pattern in self.hardware
        )

    def concerns(self, strategy: str, hardware: str = "cpu") -> bool:
        """Whether a program may meet it under a strategy, with the versions that are installed."""
        return self.affects(hardware) and self.is_under(strategy)

    def is_under(self, strategy: str) -> bool:
        """Whether it is seen under a strategy."""
        return any(fnmatch.fnmatchcase(strategy, pattern) for pattern in self.strategies)

    def covers(self, strategy: str, loop: str | None, hardware: str = "cpu") -> bool:
        """Whether this cell of the matrix is affected."""
        return loop in self.loops and self.concerns(strategy, hardware)


def _are_installed(packages: dict[str, str]) -> bool:
    try:
        return all(
            SpecifierSet(specifier).contains(version(package), prereleases=True)
            for package, specifier in packages.items()
        )
    except PackageNotFoundError:
        return False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    issue: list[KnownIssue] = []


def load_registry(path: Path) -> tuple[KnownIssue, ...]:
    """Read and check a registry file.

    Raises:
        UsageError: the file is malformed, an id stands twice, a symptom says nothing, or a specifier is not PEP 440.
    """
    try:
        issues = msgspec.convert(_decode(path), type=_File).issue
        for issue in issues:
            for packages in (issue.packages, *(each.packages for each in issue.otherwise)):
                for specifier in packages.values():
                    SpecifierSet(specifier)
    except (msgspec.MsgspecError, InvalidSpecifier) as error:
        raise UsageError(f"{path.name}: {error}") from error
    ids = [issue.id for issue in issues]
    for issue in issues:
        if ids.count(issue.id) > 1:
            raise UsageError(f"{path.name}: the id {issue.id!r} stands twice")
        if Symptom() in (issue.symptom, *(each.symptom for each in issue.otherwise)):
            raise UsageError(f"{path.name}: {issue.id} names no symptom; give an exception, laws or a rule")
    return tuple(issues)


def _decode(path: Path) -> object:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name}: not TOML: {error}") from error


@lru_cache(maxsize=1)
def registry() -> tuple[KnownIssue, ...]:
    """The registry that ships with Lockstep."""
    return load_registry(_FILE)


def issues_for(
    strategy: str, loop: str | None, marked: Sequence[str] = (), hardware: str = "cpu"
) -> tuple[KnownIssue, ...]:
    """Known issues of one cell: those whose cells cover it, and those that a test names itself.

    Args:
        strategy: its name.
        loop: kind of training loop, or None.
        marked: ids that the test names; they too apply on their hardware only.
        hardware: what the strategy computes on.

    Raises:
        UsageError: a test names an id that is not in the registry.
    """
    ids = [issue.id for issue in registry()]
    for name in marked:
        if name not in ids:
            raise UsageError(f"known_issue({name!r}) is not in the registry; it holds {', '.join(ids) or 'nothing'}")
    return tuple(
        issue
        for issue in registry()
        if issue.covers(strategy, loop, hardware) or (issue.id in marked and issue.affects(hardware))
    )


def concerning(strategies: Iterable[str], hardware: str = "cpu") -> tuple[KnownIssue, ...]:
    """Known issues that a program may meet under one of these strategies, with the versions that are installed."""
    names = set(strategies)
    return tuple(issue for issue in registry() if any(issue.concerns(name, hardware) for name in names))


def shown_by(found: BaseException | Verdict, strategy: str) -> tuple[KnownIssue, ...]:
    """Known issues under a strategy, with the installed versions, that may be why a run failed or is inconsistent.

    Of a failure those whose exception and message it ended with; of a verdict those that are known by the rule that
    explains it. What a program does wrong by itself may look the same: they are for people to look at.
    """
    return tuple(
        issue
        for issue in registry()
        if issue.affects_installed_versions() and issue.is_under(strategy) and _shows(found, issue.symptom_here)
    )


def _shows(found: BaseException | Verdict, symptom: Symptom) -> bool:
    if isinstance(found, Verdict):
        return symptom.rule is not None and symptom.fits_verdict(found)
    return bool(symptom.message) and symptom.fits_failure(found)
