"""One probe: a few forms are verified side by side, and those that are wrong by themselves."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from harness import verify
from harness.judging.known_issues import Symptom, registry
from harness.judging.verdict import Verdict
from simulator import LockstepError
from tools.probing.drawn import is_drawn
from tools.probing.inventory import Inventory
from tools.probing.kinds import KINDS
from tools.probing.training import train

Outcome = Literal["consistent", "known", "documented", "not judged", "wrong", "failed"]
# Those of a part are verified in one run.
_FORMS_MAX = 16


class Probe(msgspec.Struct, frozen=True):
    """Some forms of a kind, under a strategy, in a circumstance."""

    kind: str
    package: str
    strategy: str
    circumstance: str
    forms: tuple[str, ...]

    @property
    def name(self) -> str:
        """What reports call it."""
        return f"{self.kind}/{self.package}/{self.strategy}/{self.circumstance}/{self.forms[0]}"

    @property
    def row(self) -> str:
        """Where it is counted: forms whose arguments were drawn have a row of their own."""
        return f"{self.kind}, drawn" if is_drawn(self.forms[0]) else self.kind


class Finding(msgspec.Struct, frozen=True):
    """A form that was not consistent.

    Attributes:
        form: its name.
        outcome: what came of it.
        text: why.
    """

    form: str
    outcome: Outcome
    text: str

    @property
    def is_open(self) -> bool:
        """Whether nobody knows why yet."""
        return self.outcome not in ("known", "documented")


class Probed(msgspec.Struct, frozen=True):
    """What came of a probe.

    Attributes:
        name: of the probe.
        forms: all that were tried.
        findings: those that were not consistent.
        seconds: for all of them.
    """

    name: str
    forms: tuple[str, ...]
    findings: tuple[Finding, ...]
    seconds: float


def probes(inventories: Mapping[str, Mapping[str, Inventory]], strategies: Iterable[str], seed: int) -> list[Probe]:
    """All probes; a seed draws their order, so that a run that ends early has tried some of everything.

    Forms that meet the same known defects, or of which the same is documented, are tried by themselves; so are those
    whose arguments were drawn.
    """
    made = [
        Probe(kind, package, strategy, circumstance, part)
        for package, of_package in inventories.items()
        for kind, inventory in of_package.items()
        for strategy in strategies
        for circumstance in KINDS[kind].circumstances
        for part in _parts(kind, package, inventory.forms, f"{strategy}/{circumstance}")
    ]
    random.Random(seed).shuffle(made)
    return made


def _parts(kind: str, package: str, forms: Iterable[str], where: str) -> Iterator[tuple[str, ...]]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for form in forms:
        name = f"{package}/{form}/{where}"
        if not _told_of(name, KINDS[kind].beyond):
            met = _met(kind, package, form, where.partition("/")[0])
            alike.setdefault((str(is_drawn(form)), *met, *_told_of(name, KINDS[kind].documented)), []).append(form)
    for several in alike.values():
        for first in range(0, len(several), _FORMS_MAX):
            yield tuple(several[first : first + _FORMS_MAX])


def _told_of(name: str, patterns: Iterable[tuple[str, str]]) -> list[str]:
    return [text for pattern, text in patterns if fnmatchcase(name, pattern)]


def _met(kind: str, package: str, form: str, strategy: str) -> tuple[str, ...]:
    """The known defects that a form meets under a strategy, in the installed versions."""
    named = {issue for pattern, issue in KINDS[kind].issues if fnmatchcase(f"{package}/{form}", pattern)}
    return tuple(issue.id for issue in registry() if issue.id in named and issue.concerns(strategy))


def result_of(probe: Probe) -> Probed:
    """Verify the forms side by side; where that is not consistent, in thirds, until each wrong one is by itself.

    Forms that meet one known defect, which is seen, are not tried further: what else may be wrong with them is hidden.
    """
    began = time.monotonic()
    findings = tuple(_findings(probe, probe.forms))
    return Probed(probe.name, probe.forms, findings, round(time.monotonic() - began, 1))


def _findings(probe: Probe, forms: tuple[str, ...]) -> Iterator[Finding]:
    outcome, text = _verified(probe, forms)
    if outcome == "consistent":
        return
    if outcome == "known" and all(text in _met(probe.kind, probe.package, form, probe.strategy) for form in forms):
        yield from (Finding(form, outcome, text) for form in forms)
        return
    if len(forms) == 1:
        where = f"{probe.package}/{forms[0]}/{probe.strategy}/{probe.circumstance}"
        documented = _told_of(where, KINDS[probe.kind].documented)
        if documented:
            yield Finding(forms[0], "documented", documented[0])
        else:
            yield Finding(forms[0], outcome, text)
        return
    size = -(-len(forms) // 3)
    for first in range(0, len(forms), size):
        yield from _findings(probe, forms[first : first + size])


def _verified(probe: Probe, forms: tuple[str, ...]) -> tuple[Outcome, str]:
    program = functools.partial(
        train, kind=probe.kind, package=probe.package, forms=forms, circumstance=probe.circumstance
    )
    try:
        verdict = verify(program, probe.strategy)
    except LockstepError as error:
        known = _known(probe, forms, error)
        return ("failed", str(error).strip()) if known is None else ("known", known)
    if verdict.outcome == "consistent":
        return "consistent", ""
    if verdict.outcome == "abstained":
        return "not judged", verdict.why_abstained or ""
    known = _known(probe, forms, verdict)
    return ("wrong", str(verdict)) if known is None else ("known", known)


def _known(probe: Probe, forms: tuple[str, ...], found: LockstepError | Verdict) -> str | None:
    """The known defect that one of the forms has, if this is how it shows itself."""
    ids = {issue for form in forms for issue in _met(probe.kind, probe.package, form, probe.strategy)}
    for issue in registry():
        if issue.id in ids and _is_seen(issue.symptom_here, found):
            return issue.id
    return None


def _is_seen(symptom: Symptom, found: LockstepError | Verdict) -> bool:
    if not isinstance(found, Verdict):
        return symptom.fits_failure(found)
    # A probe records more than the cell of the matrix, and may break more laws.
    return not {finding.law for finding in found.findings}.isdisjoint(symptom.laws)
