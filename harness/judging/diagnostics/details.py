"""All that a verdict knows, in words: laws that are broken and that held, the explanation, the line, the resolution."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from harness.judging.conditions import given
from harness.judging.explain.protocol import Attempt
from harness.judging.explain.resumed_elsewhere import ELSEWHERE
from harness.judging.facts import WIDTH, Facts, when
from harness.judging.laws.protocol import Judgement
from harness.judging.resolution import described

_LINKS_SHOWN = 4


def details_of(verdict: Facts, width: int = WIDTH, *, verbose: bool = False) -> str:
    """The longer texts, and the table of examples, in lines of `width` characters at most.

    What was not judged is named in one line, with `verbose` each with its reason.
    """
    return "\n".join(_lines(verdict, width, verbose))


def _lines(verdict: Facts, width: int, verbose: bool) -> Iterator[str]:
    broken, held = verdict.with_status("broken"), verdict.with_status("held")
    yield from heading(verdict, width)
    if (first := verdict.first_divergence) is not None:
        yield f"  first divergence: {first.text}"
    if verdict.alone is not None:
        rest = "; what is wrong at others follows" if verdict.alone.hide_others and not verdict.forced else ""
        yield from _wrapped("  each step from the run's own variables: ", verdict.alone.text + rest, width)
    if broken:
        yield "  broken:"
        for judgement in sorted(broken, key=lambda law: min(map(when, law.findings))):
            yield from (f"    {judgement.law}: {finding.text}" for finding in judgement.findings)
        if any(finding.observable is not None for finding in verdict.findings):  # else there are no numbers to explain
            yield from _explained(verdict, width)
    yield from _blamed(verdict, width)
    yield from _for_every_batch(verdict, width)
    if verdict.ledger is not None:
        yield "  examples by step and worker, next to the reference:"
        shown = (f"    {line}" for line in verdict.ledger.splitlines())
        yield from (line[: width - 1] + "…" if width < min(WIDTH, len(line)) else line for line in shown)
    if held:
        yield from _wrapped("  held: ", ", ".join(map(_held, held)), width)
    yield from resolved(verdict, width)
    if verdict.links is not None:
        yield f"  bytes between tasks: {_carried(verdict.links)}"
    yield from _unjudged(verdict, width, verbose)


def _explained(verdict: Facts, width: int) -> Iterator[str]:
    if (why := verdict.explanation) is not None:
        yield from _wrapped("  explanation: ", f"{why.rule}: {why.evidence}", width)
    elif verdict.looked is not None and (kind := verdict.looked.kind) is not None:
        yield from _wrapped("  explanation: ", f"{kind.code}: {kind.says}", width)
    elif verdict.culprit is None and verdict.closest is not None:
        yield from _wrapped("  explanation: ", f"no rule reproduces these numbers{_near(verdict.closest)}", width)


def _unjudged(verdict: Facts, width: int, verbose: bool) -> Iterator[str]:
    unjudged = verdict.with_status("not_judged")
    if unjudged and not verbose:
        yield from _wrapped("  not judged (-v says why): ", ", ".join(each.law for each in unjudged), width)
    elif unjudged:
        yield "  not judged:"
        yield from (f"    {judgement.law}: {judgement.reason}" for judgement in unjudged)


def _blamed(verdict: Facts, width: int) -> Iterator[str]:
    """The culprit, or why there is none where something is wrong."""
    if (looked := verdict.looked) is None:
        return
    if (culprit := looked.culprit) is None:
        yield from _wrapped("  no culprit: ", f"{looked.why_not} (looked for {looked.seconds:.1f} s)", width)
        return
    head, *rest = culprit.lines
    yield f"  culprit: {head}"
    for line in rest:
        yield from _wrapped("    ", line, width)
    if looked.seconds:
        yield f"    (step {culprit.step} watched in {looked.seconds:.1f} s)"


def _for_every_batch(verdict: Facts, width: int) -> Iterator[str]:
    claim = verdict.claim
    if claim is not None and not (verdict.consistent and claim.status == "proved"):  # the heading says that
        yield f"  for every batch: {claim.status}"
        yield from (f"  {line}" for line in claim.lines(width - 2))


def resolved(verdict: Facts, width: int) -> Iterator[str]:
    """How small an error would have been found."""
    if verdict.resolution:
        yield from _wrapped("  would have found errors of: ", described(verdict.resolution), width)


def heading(verdict: Facts, width: int) -> Iterator[str]:
    """The outcome, and under what it is."""
    outcome = {"consistent": "consistent", "inconsistent": "INCONSISTENT", "abstained": "NOT JUDGED"}[verdict.outcome]
    shown = outcome if verdict.claim is None or not verdict.consistent else f"{outcome}, {verdict.claim.short}"
    if (batch := verdict.counterexample) is not None and not verdict.with_status("broken"):
        shown = f"{outcome} for a batch of {'+'.join(map(str, batch.shards))} examples"
    yield f"{verdict.program} under {verdict.under}: {shown} ({verdict.tolerance} tier, {verdict.seconds:.1f} s)"
    if (why := verdict.why_abstained) is not None:
        yield from _wrapped("  ", why, width)
    elif verdict.outcome == "abstained":
        yield from _wrapped("  ", verdict.nothing_compared, width)
    if verdict.forced:
        yield "  forced: each step is judged from the run's own variables, as always"
    for line in given(verdict.conditions):
        yield from _wrapped("  ", line, width)
    for line in (*around(verdict), *(f"note: {note}" for note in verdict.notes)):
        yield from _wrapped("  ", line, width)


def around(verdict: Facts) -> Iterator[str]:
    """Where it ran, in which environments, and what disturbed it."""
    if used := verdict.accelerators:
        yield f"on: {'; '.join(f'{task} ' + ', '.join(used[task]) for task in used)}"
    if verdict.machines:
        placed = "; ".join(f"{name} ran {', '.join(tasks)}" for name, tasks in verdict.machines.items())
        yield f"machines: {placed}; the reference and all other runs were here"
    if verdict.environments is not None:
        yield f"reference and run: {verdict.environments.text}"
    if verdict.faults is not None:
        yield f"faults: {verdict.faults['text']}; {_restarted(verdict.tasks)}"
    # Where a run resumed is known by how many steps it did, which says nothing where it did others.
    if verdict.interrupted is not None and (verdict.explanation is None or verdict.explanation.rule != ELSEWHERE):
        yield _interruption(**verdict.interrupted)


def _near(near: Attempt) -> str:
    share = f"{100 * (1 - near.unexplained):.3g} % of the mismatch"
    return f"; the closest, {near.rule}, explains {share} and is off by {near.ratio:.3g} times its bound"


def _restarted(tasks: Mapping[str, Mapping[str, Any]]) -> str:
    again = {name: task["incarnation"] for name, task in tasks.items() if task.get("incarnation")}
    return f"started again: {', '.join(f'{name} {count}x' for name, count in again.items()) or 'nobody'}"


def _carried(links: Mapping[str, int]) -> str:
    """Few links one by one, many by their sum and range."""
    if len(links) <= _LINKS_SHOWN:
        return ", ".join(f"{link} {carried}" for link, carried in links.items()) or "none"
    low, high = min(links.values()), max(links.values())
    return f"{sum(links.values())} on {len(links)} links, {low} to {high} on each"


def _interruption(at: int, resumed_at: int, resume_strategy: str) -> str:
    again = at - resumed_at
    repeated = "" if again <= 0 else f", so that step {at} was" if again == 1 else f", so that {again} steps were"
    done = f"{repeated} done again" if repeated else ""
    return f"interrupted after step {at}, resumed under {resume_strategy} at step {resumed_at}{done}"


def _wrapped(label: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(label + text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _held(judgement: Judgement) -> str:
    ratio = f", worst ratio {judgement.worst_ratio:.2g}" if judgement.worst_ratio else ""
    of = f" of {judgement.recorded}" if judgement.recorded > judgement.compared else ""
    return f"{judgement.law} ({judgement.compared}{of} compared{ratio})"
