"""`lockstep judge`: the steps that a watched training has left, each judged by one device."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
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
  3  a run that judges failed, so that a later call tries its steps again
  5  nothing could be judged
The first of 1, 3, 0 and 5 that holds is the code.
"""
_STDERR = 2
_SHOWN_MAX = 3
"""Of findings between steps so many are shown: a restart may lose all slots of an optimizer."""
_PAUSE_SECONDS = 1.0
_GONE_SECONDS = 60.0
"""So long after its process is gone a job may be started again."""


@command(epilog=_EPILOG, context_settings={"allow_interspersed_args": True})
@click.argument("deposit", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--follow", is_flag=True, help="Wait for a job, and judge its steps as they come, to its end.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines, one object for each step.")
@click.option("--on-finding", metavar="COMMAND", help="Run this for each wrong step, which it reads as JSON.")
@click.option(
    "--tensorboard",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write lockstep/worst_ratio and lockstep/steps_judged there, as scalars; the first time of all steps so far.",
)
@html_option("Write the ratio over the steps, and what is wrong, as a page.")
@timeout_option("Seconds for each run of the program.", 600.0)
def judge(deposit: Path, command: tuple[str, ...], **options: Any) -> int:
    """Judge the steps that `lockstep watch` has left in DIR, each by one device, and print a line for each finding.

    What was judged stays judged: it is noted in DIR, and a later call goes on from there.
    """
    from harness.cli._verdicts import JSON, TEXT, told_phases
    from harness.live import Judge

    _check_command(command)
    alarm = _alarm(options["on_finding"])
    check_written(options["html"], None)
    asked = Judge(deposit, command, options["timeout"])
    if not options["follow"] and not deposit.is_dir():
        raise UsageError(f"there is no directory {deposit}; name the one that `lockstep watch --out` has")
    has_waited = _wait_for_begin(deposit, deposit.is_dir)
    with asked.alone():
        if options["follow"]:
            _wait_for_begin(deposit, lambda: asked.has_begun, is_known=has_waited)
        with told_phases("judge", JSON if options["as_json"] else TEXT):
            told = _tell(asked, alarm, options)
        known = asked.judged
    if not known and not any(asked.doubts):
        why = "`lockstep watch` leaves it of calls that take gradients, and nobody has seen one"
        _note(f"no step has left evidence in {deposit}: {why}")
    if options["html"] is not None:
        _write_page(options["html"], known)
    if not options["as_json"]:
        for text in dict.fromkeys(text for step in known for text in step.given):
            show(f"given {text}")
        show(_summary(known))
    return _code(known, told)


def _code(known: Sequence[StepJudged], told: Sequence[StepJudged]) -> Exit:
    """The code for what is known, of which this call has told a part."""
    outcomes = [each.outcome for each in known]
    if "inconsistent" in outcomes:
        return Exit.INCONSISTENT
    if any(each.failed == "run" for each in told):
        return Exit.FAILED
    return Exit.FINE if "consistent" in outcomes else Exit.ABSTAINED


def _check_command(command: Sequence[str]) -> None:
    from harness.subject.script import Script

    try:
        if command:
            Script.of(command)
    except UsageError as error:
        raise UsageError(f"{error}; it stands after --, as in lockstep judge DIR -- python train.py") from error


def _alarm(given: str | None) -> list[str]:
    """The words of `--on-finding`, of which the first can be run.

    Raises:
        UsageError: it cannot.
    """
    if given is None:
        return []
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise UsageError(f"--on-finding {given!r} cannot be read: {error}") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"--on-finding {given!r}: there is no such command, or it may not be executed")
    return words


def _wait_for_begin(deposit: Path, has_begun: Callable[[], bool], *, is_known: bool = False) -> bool:
    """Wait for a job, with a note unless it is known; whether it had to wait."""
    never, has_waited = threading.Event(), False
    while not has_begun():
        if not (is_known or has_waited):
            _note(f"no job has begun in {deposit} yet; this waits for one")
        has_waited = True
        never.wait(_PAUSE_SECONDS)
    return has_waited


def _tell(asked: Judge, alarm: Sequence[str], options: dict[str, Any]) -> list[StepJudged]:
    """Judge, and tell of each step wherever that was asked for, and of wrong ones that are known already."""
    from harness.live.scalars import Scalars

    told, known = [], asked.judged
    with _writing(options["tensorboard"]):
        scalars = None if options["tensorboard"] is None else Scalars(options["tensorboard"], known)
    if not options["as_json"]:
        _show(each for each in known if each.findings)
    for step in _steps(asked, follow=options["follow"]):
        told.append(step)
        if options["as_json"]:
            click.echo(msgspec.json.encode(step))
        else:
            _show([step])
        if scalars is not None:
            with _writing(options["tensorboard"]):
                scalars.add(step)
        if alarm and step.findings:
            _raise_alarm(alarm, step)
    return told


@contextlib.contextmanager
def _writing(path: Path | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _raise_alarm(alarm: Sequence[str], step: StepJudged) -> None:
    """Run a command; what it writes goes to stderr, and whatever goes wrong with it is a note there."""
    told = msgspec.json.encode(step)
    try:
        code = subprocess.run(alarm, input=told, stdout=_STDERR, check=False).returncode
    except OSError as error:
        _note(f"{alarm[0]} was not run for {_where(step)}: {error.strerror}")
    else:
        if code:
            _note(f"{alarm[0]} ended with exit code {code} for {_where(step)}")


def _note(text: str) -> None:
    show(f"note: {text}", err=True)


def _steps(asked: Judge, *, follow: bool) -> Iterator[StepJudged]:
    """What is judged; also noted is what cannot be, once when this begins and once when it ends."""
    doubts = list(asked.doubts)
    for each in doubts:
        _note(each)
    yield from _followed(asked) if follow else asked.judge()
    for each in asked.doubts:
        if each not in doubts:
            _note(each)


def _followed(asked: Judge) -> Iterator[StepJudged]:
    """Until the job has come to its end, or is gone for so long that nobody starts it again."""
    never, told, gone_since = threading.Event(), None, 0.0
    while True:
        is_over = asked.is_over  # what comes after this was asked is judged the next time
        gone = None if is_over else asked.gone
        if gone is not None and gone != told:
            gone_since = time.monotonic()
            _note(
                f"{gone}, has ended before its end: this waits {_GONE_SECONDS:g} s for somebody to start the job again"
            )
        told = gone
        yield from asked.judge(waits=not is_over and gone is None)
        if is_over:
            return
        if gone is not None and time.monotonic() - gone_since > _GONE_SECONDS:
            _note("nobody has started the job again: nothing more comes")
            return
        never.wait(_PAUSE_SECONDS)


def _show(steps: Iterable[StepJudged]) -> None:
    for step in steps:
        for line in _lines(step):
            show(line)


def _lines(step: StepJudged) -> Iterator[str]:
    start = f", start {step.training + 1}" if step.training else ""
    yield from (f"{_where(step)}{start}: {text}" for text in _texts(step))


def _where(step: StepJudged) -> str:
    return f"from step {step.step} on" if step.by_digest else f"step {step.step}"


def _texts(step: StepJudged) -> list[str]:
    if step.why is not None and not step.findings:
        return [f"not judged: {step.why}"]
    again = [] if step.again is None else [f"again where it ran: {step.again}"]
    own = [] if step.own is None else [f"not judged: what each replica keeps for itself: {step.own}"]
    if step.by_digest:  # the values are those of a later step, which the text names
        whose = [f", on {each.replica}" if each.replica else "" for each in step.findings]
        told = [f"{each.question}: {each.text}{on} [{each.law}]" for each, on in zip(step.findings, whose, strict=True)]
        more = len(told) - _SHOWN_MAX
        return told if more < 2 else [*told[:_SHOWN_MAX], f"and {more} more such findings, which --json has"]
    return [f"{finding.question}: {finding.said}" for finding in step.findings] + again + own


def _write_page(path: Path, known: list[StepJudged]) -> None:
    from harness.report.pages import StepTold, judged_page

    told = [
        StepTold(each.training + 1, each.step, _where(each), each.outcome, each.worst_ratio, tuple(_texts(each)))
        for each in known
    ]
    write_page(path, judged_page(told, _summary(known)))


def _summary(known: list[StepJudged]) -> str:
    between = sum(len(each.findings) for each in known if each.by_digest)
    known = [each for each in known if not each.by_digest]
    counts = {outcome: sum(each.outcome == outcome for each in known) for outcome in ("consistent", "inconsistent")}
    worst = max((each.worst_ratio for each in known if each.worst_ratio is not None), default=None)
    said = f"{len(known)} steps: {counts['consistent']} consistent, {counts['inconsistent']} inconsistent, "
    said += f"{len(known) - sum(counts.values())} not judged"
    said += f"; {between} finding{'s' * (between > 1)} between them" if between else ""
    return said if worst is None else f"{said}; worst ratio {worst:.2g}"
