"""From a verdict to its diagnostic."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from harness.evidence.observed import OBSERVABLES
from harness.judging.conditions import GIVEN_BACK, given
from harness.judging.culprit.kinds import LOSS, NUMBER, TWICE, MistakeKind
from harness.judging.diagnostics.details import around
from harness.judging.diagnostics.expressions import columns_of
from harness.judging.diagnostics.protocol import Diagnostic, Label
from harness.judging.explain import says
from harness.judging.explain.causes import all_causes
from harness.judging.facts import Facts
from harness.judging.laws import all_laws
from harness.judging.laws.evaluations_match_reference import EVALUATION
from harness.judging.laws.protocol import Finding
from harness.judging.wording import first_ones
from harness.subject.notebook import line_on_disk
from simulator.agent.places import cell_of

DENIED, NOT_JUDGED, REFUTED = "only_given_conditions", "not_judged", "refuted"
_LINES = 3
_ADDS = "adds up what the replicas have"
_OF_GIVEN_BACK = (
    "The program may decide by what is given back, as a rate by its loss. Give back what one device gets: add up the "
    "parts of a sum with SUM, and average means with MEAN; experimental_local_results(...)[0] is the first replica's."
)


def diagnostic_of(verdict: Facts) -> Diagnostic | None:
    """The mistake that a verdict tells of, or why it does not judge; None where it is consistent as it has to be."""
    if denied := verdict.denied:
        title = "the run is consistent only given what --strict does not allow"
        return Diagnostic("error", DENIED, title, verdict.program, verdict.under, notes=denied)
    if verdict.outcome == "consistent":
        return None
    labels = _labels(verdict)
    code, title = _named(verdict)
    if labels and labels[0].text.rstrip(".") == title.rstrip("."):  # which is said once
        labels[0] = msgspec.structs.replace(labels[0], text="")
    return Diagnostic(
        severity="warning" if code == NOT_JUDGED else "error",
        code=code,
        title=title.rstrip("."),
        program=verdict.program,
        strategy=verdict.under,
        label=labels[0] if labels else None,
        others=tuple(labels[1:]),
        facts=tuple(each for each in _facts(verdict, lined=bool(labels)) if each.rstrip(".") != title.rstrip(".")),
        help=_cure(verdict),
        # What the run's own environment says is a half of the answer.
        notes=(
            *given(verdict.conditions),
            *(verdict.notes if verdict.environments is not None else ()),
            *_counted(verdict.counted),
        ),
    )


def _counted(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield (
            f"num_replicas_in_sync, which is 1 on one device, is read at {first_ones(lines, _LINES)}: what a function "
            "makes of it is to be the same for any number of replicas; a script may depend on it"
        )


def _named(verdict: Facts) -> tuple[str, str]:
    """The code, and the sentence: of the rule that explains it, of what the line's values prove, or of the law."""
    if verdict.outcome == "abstained":
        return NOT_JUDGED, verdict.why_abstained or verdict.nothing_compared
    if (why := verdict.explanation) is not None:
        cause = next((each.what for each in all_causes() if each.id == why.cause), None)
        return why.rule, cause or says(why.rule)
    if (kind := _proved(verdict)) is not None:
        return kind.code, kind.says
    first = verdict.first_divergence or next(iter(verdict.findings), None)
    if first is None:  # then a batch has been tried
        return REFUTED, "the step is wrong for a batch that the run did not have"
    return first.law, _said_of(first)


def _proved(verdict: Facts) -> MistakeKind | None:
    """The kind of mistake that the values at a line prove, or those of what was reported."""
    return None if verdict.looked is None else verdict.looked.kind


def _cure(verdict: Facts) -> str:
    """Of what explains the numbers, unless the line tells more: a number that the program gives, or a second sum."""
    kind = _proved(verdict)
    if verdict.explanation is not None and kind not in (LOSS, NUMBER, TWICE):
        return verdict.explanation.cure
    if kind is not None or (first := verdict.first_divergence) is None:
        return "" if kind is None else kind.cure
    of_law = next((law.cure for law in all_laws() if law.id == first.law), "")
    decides = first.observable != "examples" and any(each.code == GIVEN_BACK for each in verdict.conditions)
    return of_law or (_OF_GIVEN_BACK if decides else "")


def _labels(verdict: Facts) -> list[Label]:
    """The culprit's line, or that which a batch refutes; and where what it gives is added up."""
    culprit, claim = verdict.culprit, verdict.claim
    if culprit is not None and culprit.line:
        told = {"source": culprit.source, "operation": culprit.op}
        found = [label_of(culprit.file, culprit.line, culprit.relation, **told, among=culprit.among)]
        if culprit.adds is not None and culprit.adds[:2] != (culprit.file, culprit.line):
            file, line, source = culprit.adds
            found.append(label_of(file, line, _ADDS, source=source, operation="Sum"))
        return found
    refuted = None if claim is None else claim.culprit
    if refuted is None or (place := refuted.place) is None:
        return []
    return [label_of(place.file, place.line, refuted.why, source=place.source, operation=place.op)]


def _facts(verdict: Facts, *, lined: bool) -> Iterator[str]:
    """Under what the run was, the first numbers that differ, and at which steps others do.

    Where no line says what has happened the evidence of the rule does.
    """
    yield from around(verdict)
    if verdict.explanation is not None and not lined:
        yield verdict.explanation.evidence
    if (first := verdict.first_divergence) is not None:
        yield _numbers(first)
    if verdict.alone is not None:
        yield verdict.alone.text
    if verdict.looked is not None and verdict.looked.why_not is not None:
        yield f"no line is named: {verdict.looked.why_not}"
    if (batch := verdict.counterexample) is not None and first is None:
        yield batch.text


def _numbers(found: Finding) -> str:
    """`step 1: loss is 3.9, on one device 1.95 (rounding: 9e-06)`, or the finding's own words."""
    of_element = found.observable in ("loss", EVALUATION) or found.index is not None
    if found.observed is None or found.expected is None or not (of_element and _compares(found)):
        return found.text
    step = "at the end" if found.step is None else f"step {found.step}"
    step = f"after {step}" if found.observable == EVALUATION else step
    what = str(found.observable) if found.variable is None else f"{found.variable}{list(found.index or ()) or ''}"
    what = f"the metric {what!r}" if found.observable == "metrics" else what
    rounding = f" (rounding: {found.bound:.2g})" if found.bound else ""
    return f"{step}: {what} is {found.observed:.7g}, on one device {found.expected:.7g}{rounding}"


def _said_of(found: Finding) -> str:
    """What is wrong where no rule says why."""
    if found.observable == "start" and found.variable is not None:
        return f"variable {found.variable!r} begins a step with another value than on one device"
    if not _compares(found):
        return found.text
    if found.observable == EVALUATION:
        return f"{found.variable} is not what one device computes"
    if found.observable != "loss" and found.variable is None:
        return f"{found.observable} are not what one device computes"
    what = "the loss" if found.observable == "loss" else f"{str(found.observable).removesuffix('s')} {found.variable!r}"
    return f"{what} is not what one device computes"


def _compares(found: Finding) -> bool:
    """Whether it is one of a value with that of one device."""
    return found.observable in (*OBSERVABLES, EVALUATION) and found.law.endswith("_reference")


def label_of(
    file: str,
    line: int,
    text: str,
    *,
    source: str = "",
    operation: str = "",
    among: tuple[int, int] | None = None,
) -> Label:
    """What is said of a line, with the columns of the expression that is meant.

    Args:
        file: as Python knows it, or relative to the current directory.
        line: from 1.
        text: what is said.
        source: the line as it was, without what surrounds it; a file that has another one there now is not looked at.
        operation: as of `columns_of`.
        among: as of `columns_of`.
    """
    found = linecache.getline(str(Path(file).absolute()), line).rstrip("\n")
    if source and found.strip() != source:
        return Label(file, line, source, *columns_of(source, 1, source, operation, among), text, exact=False)
    whole = "".join(linecache.getlines(str(Path(file).absolute())))
    if cell_of(file) is not None:  # whose text has other columns in the notebook
        columns = columns_of(whole, line, found, operation, among)
        return Label(file, line, found, *columns, text, exact=False, on_disk=line_on_disk(file, line))
    return Label(file, line, found, *columns_of(whole, line, found, operation, among), text)
