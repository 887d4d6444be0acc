"""`lockstep judge`: the steps that a watched training has left, each judged by one device."""

from __future__ import annotations

import shlex
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from harness.cli._exits import Exit, command
from harness.cli._options import html_option, timeout_option
from harness.cli._output_files import check_written, write_page
from harness.cli._terminal_width import show
from simulator import UsageError

if TYPE_CHECKING:
    from harness.live import Judge, StepJudged

_EPILOG = """\b
Examples:
  lockstep judge evidence                        what is there and has not been judged
  lockstep judge evidence --follow               until the job has come to its end
  lockstep judge evidence -- python train.py     where the job's code is elsewhere on this machine
  lockstep judge evidence --on-finding ./page-me.sh
  lockstep judge evidence --tensorboard logs --html judged.html

\b
Exit codes:
  0  all steps that were judged are consistent, those of earlier calls too
  1  something is wrong with a step
  2  usage error, such as a program that is not here
  3  a run that judges failed
  5  nothing could be judged
"""
_PAUSE_SECONDS = 1.0
_GONE_SECONDS = 60.0
"""So long after its process is gone a job may be started again."""


@command(epilog=_EPILOG, context_settings={"allow_interspersed_args": True})
@click.argument("deposit", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--follow", is_flag=True, help="Judge steps as they come, until the job has come to its end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each step.")
@click.option("--on-finding", metavar="COMMAND", help="Run this for each wrong step, which it reads as JSON.")
@click.option(
    "--tensorboard",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write lockstep/worst_ratio and lockstep/steps_judged there, as scalars.",
)
@html_option("Write the ratio over the steps, and what is wrong, as a page.")
@timeout_option("Seconds for each run of the program.", 600.0)
def judge(deposit: Path, command: tuple[str, ...], **options: Any) -> int:
    """Judge the steps that `lockstep watch` has left in DIR, each by one device, and print a line for each finding.

    What was judged stays judged: it is noted in DIR, and a later call goes on from there.
    """
    from harness.live import Judge

    asked = Judge(deposit, command, options["timeout"])
    check_written(options["html"], None)
    _tell(asked, options)
    known = asked.judged
    if not known:
        why = "`lockstep watch` leaves it of calls that take gradients, and nobody has seen one"
        show(f"note: no step has left evidence in {deposit}: {why}", err=True)
    if options["html"] is not None:
        _write_page(options["html"], known)
    outcomes = [each.outcome for each in known]
    if not options["as_json"]:
        show(_summary(known))
    if "inconsistent" in outcomes:
        return Exit.INCONSISTENT
    return Exit.FINE if "consistent" in outcomes else Exit.ABSTAINED


def _tell(asked: Judge, options: dict[str, Any]) -> None:
    """Judge, and tell of each step wherever that was asked for."""
    from harness.live.scalars import Scalars

    scalars = None if options["tensorboard"] is None else Scalars(options["tensorboard"], asked.judged)
    for step in _steps(asked, follow=options["follow"]):
        if options["as_json"]:
            click.echo(msgspec.json.encode(step))
        else:
            for line in _lines(step):
                show(line)
        if scalars is not None:
            try:
                scalars.add(step)
            except OSError as error:
                raise UsageError(f"{options['tensorboard']} cannot be written: {error.strerror}") from error
        if options["on_finding"] is not None and step.findings:
            subprocess.run(shlex.split(options["on_finding"]), input=msgspec.json.encode(step), check=False)


def _steps(asked: Judge, *, follow: bool) -> Iterator[StepJudged]:
    never, gone_since = threading.Event(), None
    while True:
        is_over = asked.is_over  # what comes after this was asked is judged the next time
        gone = asked.gone if follow and not is_over else None
        gone_since = None if gone is None else gone_since or time.monotonic()
        yield from asked.judge()
        if is_over or not follow:
            return
        if gone_since is not None and time.monotonic() - gone_since > _GONE_SECONDS:
            show(
                f"note: {gone}, has ended before its end, and nobody has started it again: nothing more comes", err=True
            )
            return
        never.wait(_PAUSE_SECONDS)


def _lines(step: StepJudged) -> Iterator[str]:
    start = f", start {step.training + 1}" if step.training else ""
    yield from (f"{_where(step)}{start}: {text}" for text in _texts(step))


def _where(step: StepJudged) -> str:
    return f"from step {step.step} on" if step.by_digest else f"step {step.step}"


def _texts(step: StepJudged) -> list[str]:
    if step.why is not None and not step.findings:
        return [f"not judged: {step.why}"]
    again = [] if step.again is None else [f"again where it ran: {step.again}"]
    if step.by_digest:  # the values are those of a later step, which the text names
        whose = [f", on {each.replica}" if each.replica else "" for each in step.findings]
        return [f"{each.question}: {each.text}{on} [{each.law}]" for each, on in zip(step.findings, whose, strict=True)]
    return [f"{finding.question}: {finding.said}" for finding in step.findings] + again


def _write_page(path: Path, known: list[StepJudged]) -> None:
    from harness.report.pages import StepTold, judged_page

    told = [
        StepTold(each.training + 1, each.step, _where(each), each.outcome, each.worst_ratio, tuple(_texts(each)))
        for each in known
    ]
    write_page(path, judged_page(told, _summary(known)))


def _summary(known: list[StepJudged]) -> str:
    known = [each for each in known if not each.by_digest]
    counts = {outcome: sum(each.outcome == outcome for each in known) for outcome in ("consistent", "inconsistent")}
    worst = max((each.worst_ratio for each in known if each.worst_ratio is not None), default=None)
    said = f"{len(known)} steps: {counts['consistent']} consistent, {counts['inconsistent']} inconsistent, "
    said += f"{len(known) - sum(counts.values())} not judged"
    return said if worst is None else f"{said}; worst ratio {worst:.2g}"
