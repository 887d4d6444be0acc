"""`lockstep verify --baseline`: what is known to be wrong does not fail, what is new does, and what is gone is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from harness.cli._exits import Exit
from harness.cli._options import together
from harness.cli._output_files import check_writable
from harness.cli._terminal_width import show
from simulator import UsageError

if TYPE_CHECKING:
    from harness.judging.diagnostics.formats import ReportedVerdict

_Command = TypeVar("_Command", bound=Callable[..., Any])
_VERSION = 1


def baseline_options(command: _Command) -> _Command:
    """`--baseline` and `--update-baseline`."""
    return together(
        click.option(
            "--baseline",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="What FILE has of mistakes, and of what was not judged, does not fail; what it has not does.",
        ),
        click.option(
            "--update-baseline",
            is_flag=True,
            help="With --baseline: write into FILE what is found now, for the programs and strategies of this command.",
        ),
    )(command)


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A diagnostic that is known, of a program, a strategy and what disturbs the run.

    `fingerprint` tells it from others, and the rest tells people what it is.
    """

    program: str
    strategy: str
    disturbed: str
    code: str
    where: str
    title: str
    fingerprint: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    known: tuple[Known, ...] = ()


class Baseline:
    """What is known before a command runs, and what it has found.

    Args:
        file: holds it; None where nothing is known.
        update: whether it is written anew, and need not be there yet.
        disturbed: what the runs are disturbed by.

    Raises:
        UsageError: the file is not there, is no baseline, or cannot be written.
    """

    def __init__(self, file: Path | None, *, update: bool, disturbed: str = "") -> None:
        if update and file is None:
            raise UsageError("--update-baseline writes what --baseline FILE names; give that as well")
        self._file, self._update, self._disturbed = file, update, disturbed
        self._known = () if file is None else _read(file, needed=not update)
        if file is not None and update:
            check_writable(file, "--baseline")
        self._found: list[ReportedVerdict] = []

    def judged(
        self, code: Exit, reported: ReportedVerdict, *, said: bool
    ) -> tuple[Exit, ReportedVerdict, dict[str, Any]]:
        """What a verification comes to, given what is known.

        Args:
            code: without a baseline.
            reported: what came of it.
            said: whether people read what is said of it.

        Returns:
            The code, what machines are to report, and what is added to the object of `--json`.
        """
        if self._file is None or code not in (Exit.FINE, Exit.INCONSISTENT, Exit.ABSTAINED):
            return code, reported, {}  # of what has failed nothing is known
        self._found.append(reported)
        mine = [each for each in self._known if self._is_of(each, reported)]
        now = None if (known := self._as_known(reported)) is None else known.fingerprint
        gone = [each for each in mine if each.fingerprint != now]
        is_known = self._update or now in {each.fingerprint for each in mine}
        if said:
            then = "taken out of" if self._update else "--update-baseline takes it out of"
            for each in gone:
                show(f"no longer found: {each.code} at {each.where}; {then} {self._file}", err=True)
            if known is not None and is_known and not self._update:
                show(f"known: {known.code} at {known.where} is in {self._file}", err=True)
        added = {"baseline": {"known": known is not None and is_known, "gone": [each.code for each in gone]}}
        if known is None or not is_known:
            return code, reported, added
        return Exit.FINE, msgspec.structs.replace(reported, diagnostic=None), added

    def write(self) -> None:
        """Write what was found, where that was asked for; what the command has not verified stays.

        Raises:
            UsageError: it cannot be written.
        """
        if self._file is None or not self._update:
            return
        others = [each for each in self._known if not any(self._is_of(each, found) for found in self._found)]
        now = [*others, *(known for found in self._found if (known := self._as_known(found)) is not None)]
        every = tuple(sorted(now, key=lambda each: (each.program, each.strategy, each.code, each.where)))
        data = msgspec.json.format(msgspec.json.encode(_File(_VERSION, every))) + b"\n"
        try:
            self._file.write_bytes(data)
        except OSError as error:
            raise UsageError(f"--baseline {self._file} cannot be written: {error.strerror}") from error
        show(f"written: {self._file}, with {len(every)} known", err=True)

    def _is_of(self, known: Known, reported: ReportedVerdict) -> bool:
        mine = (reported.program, reported.strategy, self._disturbed)
        return (known.program, known.strategy, known.disturbed) == mine

    def _as_known(self, reported: ReportedVerdict) -> Known | None:
        """The diagnostic as a baseline has it; None of what is consistent."""
        from harness.judging.diagnostics.formats.protocol import fingerprint

        if (found := reported.diagnostic) is None:
            return None
        where, mine = found.program if found.label is None else found.label.where, self._disturbed
        return Known(reported.program, reported.strategy, mine, found.code, where, found.title, fingerprint(found))


def _read(file: Path, *, needed: bool) -> Iterable[Known]:
    if not file.exists() and not needed:
        return ()
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_File)
    except OSError as error:
        raise UsageError(f"--baseline {file}: {error.strerror}; --update-baseline writes one") from error
    except msgspec.MsgspecError as error:
        raise UsageError(f"--baseline {file} is no baseline: {error}; --update-baseline writes another one") from error
    if found.version != _VERSION:
        raise UsageError(f"--baseline {file} is of version {found.version}, and this Lockstep reads {_VERSION}")
    return found.known
