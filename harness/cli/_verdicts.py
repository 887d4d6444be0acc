"""What `verify` and `report` write of verdicts: for people, or in a form for machines."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from harness.cli._options import together
from harness.cli._terminal_width import columns, show

if TYPE_CHECKING:
    from harness.judging.diagnostics.formats import ReportedVerdict
    from harness.judging.verdict import Verdict

_Command = TypeVar("_Command", bound=Callable[..., Any])

TEXT, JSON, GITHUB = "text", "json", "github"
_STYLES: dict[str, dict[str, Any]] = {
    "error": {"fg": "red", "bold": True},
    "warning": {"fg": "yellow", "bold": True},
    "place": {"fg": "blue", "bold": True},
    "mark": {"fg": "red", "bold": True},
    "help": {"fg": "green", "bold": True},
    "aside": {"bold": True},
}


def _names() -> list[str]:
    """By their files, since what they need is not imported to show `--help`."""
    folder = Path(__file__).parent.parent / "judging" / "diagnostics" / "formats"
    found = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "protocol"))
    return [TEXT, JSON, *found]


def format_options(command: _Command) -> _Command:
    """`--format` and `--json`."""
    return together(
        click.option(
            "--format",
            "form",
            type=click.Choice(_names()),
            help="text for people; json: one object, or a list of several; github shows what is wrong at its line in a "
            "pull request, gitlab in a merge request; sarif is for code scanning, junit for most systems of "
            "continuous integration.  [default: text]",
        ),
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
    )(command)


def format_of(form: str | None, *, as_json: bool) -> str:
    """The one that was asked for.

    Raises:
        UsageError: two were.
    """
    if as_json and form not in (None, JSON):
        raise click.UsageError(f"--json is --format json; leave out one of it and --format {form}")
    return JSON if as_json else form or TEXT


def show_verdict(verdict: Verdict, form: str, *, verbose: bool) -> None:
    """Write it for people, if that is the form, or what reads the form reads no more than commands in it."""
    if form in (TEXT, GITHUB):
        click.echo(verdict.text(columns() or 110, verbose=verbose, paint=_painted))
        if not (verbose or verdict.consistent):
            click.echo("details: -v")


def _painted(style: str, text: str) -> str:
    return text if os.environ.get("NO_COLOR") else click.style(text, **_STYLES[style])


class Phases:
    """What a verification does, line by line on stderr, and how many seconds each took."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        self._name, self._quiet = name, quiet
        self._began = time.monotonic()
        self._known: list[tuple[str, float]] = []

    def begin(self, words: str) -> None:
        """Say that a phase begins."""
        now = time.monotonic()
        self._known.append((words, now))
        if not self._quiet:
            after = f" ({now - self._began:.1f} s)" if len(self._known) > 1 else ""
            show(f"{self._name}: {words} ...{after}", err=True)

    def show_seconds(self) -> None:
        """Where the seconds went."""
        if self._known and not self._quiet:
            ends = [began for _, began in self._known[1:]] + [time.monotonic()]
            parts = [f"{words} {end - began:.1f} s" for (words, began), end in zip(self._known, ends, strict=True)]
            show(f"  seconds: {', '.join(parts)}")


@contextlib.contextmanager
def told_phases(name: str, form: str) -> Iterator[Phases]:
    """Say on stderr what a verification does in this context, unless a machine reads what it writes."""
    from harness.phases import on_phase

    phases = Phases(name, quiet=form not in (TEXT, GITHUB))
    with on_phase(phases.begin):
        yield phases


def reported(verdict: Verdict, file: str | None = None) -> ReportedVerdict:
    """What came of it, as forms for machines have it; `file` is that of the program, if that is known."""
    from harness.judging.diagnostics import diagnostic_of
    from harness.judging.diagnostics.formats import ReportedVerdict

    file = verdict.program.rpartition(":")[0] or verdict.program if file is None else file
    return ReportedVerdict(file, verdict.program, verdict.strategy, verdict.seconds, diagnostic_of(verdict))


def write(form: str, objects: Sequence[dict[str, Any]], each: Sequence[ReportedVerdict]) -> None:
    """Write what came of all verifications in a form for machines; nothing if it is that for people."""
    if form == JSON:
        click.echo(msgspec.json.encode(objects if len(objects) > 1 else objects[0]))
    elif form != TEXT:
        from harness.judging.diagnostics.formats import all_formats

        if text := all_formats()[form].written(each):
            click.echo(text)
