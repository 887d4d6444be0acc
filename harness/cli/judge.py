"""`lockstep judge`: the steps that a watched training has left, each judged by one device."""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from harness.cli._exits import Exit
from harness.cli._options import timeout_option
from harness.cli._terminal_width import show

if TYPE_CHECKING:
    from harness.live import Judge, StepJudged

__all__ = ["judge"]

_EPILOG = """\b
Examples:
  lockstep judge evidence                        what is there and has not been judged
  lockstep judge evidence --follow               until the job has come to its end
  lockstep judge evidence -- python train.py     where the job's code is elsewhere on this machine
  lockstep judge evidence --on-finding ./page-me.sh

\b
Exit codes:
  0  all steps that were judged are consistent, those of earlier calls too
  1  something is wrong with a step
  2  usage error, such as a program that is not here
  3  a run that judges failed
  5  nothing could be judged
"""
_PAUSE_SECONDS = 1.0


@click.command(epilog=_EPILOG, context_settings={"allow_interspersed_args": True})
@click.argument("deposit", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--follow", is_flag=True, help="Judge steps as they come, until the job has come to its end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each step.")
@click.option("--on-finding", metavar="COMMAND", help="Run this for each wrong step, which it reads as JSON.")
@timeout_option("Seconds for each run of the program.", 600.0)
def judge(
    deposit: Path, command: tuple[str, ...], follow: bool, as_json: bool, on_finding: str | None, timeout: float
) -> int:
    """Judge the steps that `lockstep watch` has left in DIR, each by one device, and print a line for each finding.

    What was judged stays judged: it is noted in DIR, and a later call goes on from there.
    """
    from harness.live import Judge
    from simulator import UsageError

    asked = Judge(deposit, command, timeout)
    try:
        for note in asked.notes():
            show(f"note: {note}", err=True)
        for step in _steps(asked, follow=follow):
            if as_json:
                click.echo(msgspec.json.encode(step))
            else:
                for line in _lines(step):
                    show(line)
            if on_finding is not None and step.findings:
                subprocess.run(shlex.split(on_finding), input=msgspec.json.encode(step), check=False)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    known = asked.judged
    outcomes = [each.outcome for each in known]
    if not as_json:
        show(_summary(known))
    if "inconsistent" in outcomes:
        return Exit.INCONSISTENT
    return Exit.FINE if "consistent" in outcomes else Exit.ABSTAINED


def _steps(asked: Judge, *, follow: bool) -> Iterator[StepJudged]:
    never = threading.Event()
    while True:
        is_over = asked.is_over  # what comes after this was asked is judged the next time
        yield from asked.judge()
        if is_over or not follow:
            return
        never.wait(_PAUSE_SECONDS)


def _lines(step: StepJudged) -> Iterator[str]:
    where = f"from step {step.step} on" if step.by_digest else f"step {step.step}"
    where += f", start {step.training + 1}" if step.training else ""
    for finding in step.findings:
        yield f"{where}: {finding.question}: {finding.said}"
    if step.why is not None and not step.findings:
        yield f"{where}: not judged: {step.why}"


def _summary(known: list[StepJudged]) -> str:
    known = [each for each in known if not each.by_digest]
    counts = {outcome: sum(each.outcome == outcome for each in known) for outcome in ("consistent", "inconsistent")}
    worst = max((each.worst_ratio for each in known if each.worst_ratio is not None), default=None)
    said = f"{len(known)} steps: {counts['consistent']} consistent, {counts['inconsistent']} inconsistent, "
    said += f"{len(known) - sum(counts.values())} not judged"
    return said if worst is None else f"{said}; worst ratio {worst:.2g}"
