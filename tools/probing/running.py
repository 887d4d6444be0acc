"""One probe: a few forms are verified side by side, and those that are wrong by themselves."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

import msgspec

from harness import verify
from harness.judging.known_issues import Symptom, registry
from harness.judging.verdict import Verdict
from simulator import LockstepError
from tools.probing.drawn import is_drawn
from tools.probing.inventory import Inventory
from tools.probing.kinds import KINDS
from tools.probing.training import train

Outcome = Literal["consistent", "known", "documented", "coarse", "not judged", "wrong", "failed"]
_COARSE = "in bfloat16 what a step computes is little more than its rounding; all else is consistent"
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
        return self.outcome not in ("known", "documented", "coarse")


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


class Shown(NamedTuple):
    """What a run of some forms has shown.

    Attributes:
        outcome: of all of them.
        text: why.
        concerned: the forms that are known to have it; none where each must be tried.
    """

    outcome: Outcome
    text: str = ""
    concerned: tuple[str, ...] = ()


def _findings(probe: Probe, forms: tuple[str, ...]) -> Iterator[Finding]:
    shown = _verified(probe, forms)
    if shown.outcome == "consistent":
        return
    if shown.concerned:
        yield from (Finding(form, shown.outcome, shown.text) for form in shown.concerned)
        return
    if len(forms) == 1:
        where = f"{probe.package}/{forms[0]}/{probe.strategy}/{probe.circumstance}"
        documented = _told_of(where, KINDS[probe.kind].documented)
        if documented:
            yield Finding(forms[0], "documented", documented[0])
        else:
            yield Finding(forms[0], shown.outcome, shown.text)
        return
    size = -(-len(forms) // 3)
    for first in range(0, len(forms), size):
        yield from _findings(probe, forms[first : first + size])


def _verified(probe: Probe, forms: tuple[str, ...]) -> Shown:
    program = functools.partial(
        train, kind=probe.kind, package=probe.package, forms=forms, circumstance=probe.circumstance
    )
    try:
        verdict = verify(program, probe.strategy)
    except LockstepError as error:
        return _known(probe, forms, error) or Shown("failed", str(error).strip())
    if verdict.outcome == "consistent":
        return Shown("consistent")
    if verdict.outcome == "abstained":
        coarse = _coarse(forms, verdict) if probe.circumstance == "half" else ()
        return Shown("coarse", _COARSE, coarse) if coarse else Shown("not judged", verdict.why_abstained or "")
    return _known(probe, forms, verdict) or Shown("wrong", str(verdict))


def _coarse(forms: tuple[str, ...], verdict: Verdict) -> tuple[str, ...]:
    """The forms of which too little is known for their bounds, if nothing else keeps a run unjudged.

    They have variables of whose changes nothing is known, or nothing that is compared.
    """
    if verdict.abstained is not None:
        return ()
    unseen = [name for law in verdict.judgements for name in law.unseen]
    if not unseen and len(forms) == 1 and any(law.resolution is not None for law in verdict.with_status("not_judged")):
        return forms
    return tuple(form for form in forms if any(name.startswith(f"{form}/") for name in unseen))


def _known(probe: Probe, forms: tuple[str, ...], found: LockstepError | Verdict) -> Shown | None:
    """The known defect that one of the forms has, if this is how it shows itself."""
    met = {form: _met(probe.kind, probe.package, form, probe.strategy) for form in forms}
    for issue in registry():
        having = tuple(form for form, issues in met.items() if issue.id in issues)
        if having and _is_seen(issue.symptom_here, found):
            return Shown("known", issue.id, having if having == forms else ())
    return None


def _is_seen(symptom: Symptom, found: LockstepError | Verdict) -> bool:
    if not isinstance(found, Verdict):
        return symptom.fits_failure(found)
    # A probe records more than the cell of the matrix, and may break more laws.
    return not {finding.law for finding in found.findings}.isdisjoint(symptom.laws)
