"""`lockstep verify --fix`: a cure that is tried, shown as a diff, and written where that was asked for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli._options import together
from harness.cli._terminal_width import show
from harness.cli._verdicts import GITHUB, JSON, TEXT
from simulator import UsageError

if TYPE_CHECKING:
    from harness.cures import NoCure, TriedCure
    from harness.judging.verdict import Verdict
    from harness.subject.program import Program
    from harness.subject.strategies import StrategyCase

_Command = TypeVar("_Command", bound=Callable[..., Any])
_DISTURBED = ("interrupt_at", "faults", "links", "plan", "reference_python")


def fix_options(command: _Command) -> _Command:
    """`--fix` and `--write`."""
    return together(
        click.option(
            "--fix",
            is_flag=True,
            help="Of what is inconsistent: change the lines to blame in a copy as known cures do, verify it, and show "
            "the change with which it is consistent.",
        ),
        click.option("--write", is_flag=True, help="With --fix: write the change into the file."),
    )(command)


def check_fix(options: dict[str, Any]) -> None:
    """Fail if that makes no sense.

    Raises:
        UsageError: there is nothing to write, or a run is disturbed, which no cure is for.
    """
    if options["write"] and not options["fix"]:
        raise UsageError("--write writes what --fix has found; give that as well")
    if options["fix"] and (given := [name for name in _DISTURBED if options[name]]):
        name = {"faults": "fault", "links": "link"}.get(given[0], given[0].replace("_", "-"))
        raise UsageError(f"--fix is for runs that nothing disturbs, in one environment; leave out --{name}")
    if options["write"] and len(set(options["names"])) > 1:
        raise UsageError("--write changes the file that other strategies would then be judged on; give one --strategy")
    if options["fix"] and options["form"] not in (TEXT, GITHUB, JSON):
        raise UsageError(f"--fix has no place in --format {options['form']}; there are text, github and json")
    if options["fix"] and options["explain"] is False:
        raise UsageError("--fix changes the line to blame; leave out --no-explain")
    if options["fix"] and options["machines"]:
        raise UsageError("--fix verifies copies of a file on this machine; leave out --machines")


def tried(
    verdict: Verdict, program: Program, named: str, case: StrategyCase, asked: dict[str, Any]
) -> TriedCure | NoCure:
    """A change with which the program is consistent, or why there is none.

    Args:
        verdict: that is inconsistent.
        program: it is on.
        named: the program as it was typed, `FILE.py:FUNCTION`, if it is a function.
        case: the strategy.
        asked: as of `harness.verify.verify`.
    """
    import msgspec

    from harness.cures import try_cures
    from harness.subject.program import Program

    def changed(file: Path) -> Program:
        if program.script is None:
            return Program.of(f"{file}:{named.rpartition(':')[2]}")
        return Program.of_script(msgspec.structs.replace(program.script, path=str(file)))

    file = Path(named.rpartition(":")[0] if program.script is None else program.script.path).resolve()
    kept = {name: asked[name] for name in ("tier", "timeout", "prove")}
    return try_cures(verdict, file, changed, case, **kept, explain=False)


def told_cure(found: TriedCure | NoCure, form: str, *, write: bool) -> dict[str, str]:
    """Say what it is, if people read that, and write it if that was asked for; it as a verdict's JSON has it."""
    from harness.cures import NoCure

    shown = form in (TEXT, GITHUB)
    if isinstance(found, NoCure):
        if shown:
            show(f"help: {found.why}")
        return {"why_not": found.why}
    if shown:
        claim = found.verdict.claim
        show(f"help: verified: with this change it is consistent{'' if claim is None else f', {claim.short}'}")
        click.echo(found.diff)
    if write:
        _write(found)
        if shown:
            show(f"written to {os.path.relpath(found.file)}")
    return {"file": str(found.file), "diff": found.diff}


def _write(found: TriedCure) -> None:
    """Put the changed file in place of the one that was verified, whole or not at all.

    Raises:
        UsageError: it may not be written, or is another one by now.
    """
    file = found.file.resolve()  # a link goes on to be one
    before, after = (text.encode(found.encoding) for text in (found.before, found.after))
    if file.read_bytes() != before:
        raise UsageError(f"{found.file} has been changed in the meantime; nothing was written")
    if not os.access(file, os.W_OK):
        raise UsageError(f"{found.file} may not be written")
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as new:
        try:
            new.write(after)
            new.close()
            shutil.copymode(file, new.name)
            Path(new.name).replace(file)
        finally:
            Path(new.name).unlink(missing_ok=True)
