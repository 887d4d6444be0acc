"""What `verify` and `report` write of verdicts: for people, or in a form for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from harness.cli._fitting import columns

if TYPE_CHECKING:
    from harness.judging.diagnostics.formats import Reported
    from harness.judging.verdict import Verdict

__all__ = ["TEXT", "format_of", "format_options", "reported", "show_verdict", "write"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

TEXT, _JSON, _GITHUB = "text", "json", "github"
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
    return [TEXT, _JSON, *found]


def format_options(command: _Command) -> _Command:
    """`--format` and `--json`."""
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="The same as --format json."),
        click.option(
            "--format",
            "form",
            type=click.Choice(_names()),
            help="text for people; json: one object, or a list of several; github shows what is wrong at its line in a "
            "pull request, gitlab in a merge request; sarif is for code scanning, junit for most systems of "
            "continuous integration.  [default: text]",
        ),
    ):
        command = decorate(command)
    return command


def format_of(form: str | None, *, as_json: bool) -> str:
    """The one that was asked for.

    Raises:
        UsageError: two were.
    """
    if as_json and form not in (None, _JSON):
        raise click.UsageError(f"--json is --format json; leave out one of it and --format {form}")
    return _JSON if as_json else form or TEXT


def show_verdict(verdict: Verdict, form: str, *, verbose: bool) -> None:
    """Write it for people, if that is the form, or what reads the form reads no more than commands in it."""
    if form in (TEXT, _GITHUB):
        click.echo(verdict.text(columns() or 110, verbose=verbose, paint=_painted))
        if not (verbose or verdict.consistent):
            click.echo("details: -v")


def _painted(style: str, text: str) -> str:
    return click.style(text, **_STYLES[style])


def reported(verdict: Verdict) -> Reported:
    """What came of it, as forms for machines have it."""
    from harness.judging.diagnostics import diagnostic_of
    from harness.judging.diagnostics.formats import Reported

    return Reported(verdict.program, verdict.strategy, verdict.seconds, diagnostic_of(verdict))


def write(form: str, objects: Sequence[dict[str, Any]], each: Sequence[Reported]) -> None:
    """Write what came of all verifications in a form for machines; nothing if it is that for people."""
    if form == _JSON:
        click.echo(msgspec.json.encode(objects if len(objects) > 1 else objects[0]))
    elif form != TEXT:
        from harness.judging.diagnostics.formats import all_formats

        if text := all_formats()[form].written(each):
            click.echo(text)
