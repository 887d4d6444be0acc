"""An unmodified program under test: a command that starts Python with a script, and what its reference stands for."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from harness.subject.notebook import NotebookCell, read_cells, show_to_python
from simulator import UsageError

FIRST_STEPS = 100
"""Of a script so many steps are judged if nobody says another number."""

Updates = Literal["updates", "shares"]
"""What a coordinator's closures are: each an update of its own, or those of all workers together one update."""

_CLOSURES = "closures="
_PYTHON = re.compile(r"python(?P<version>\d+(\.\d+)?)?")
_FORM = "give the command that starts it, for example: python train.py --epochs 1"
# Options of Python's that change nothing of what a script computes; others, such as -O, are not those of its tasks.
_HARMLESS = ("-u", "-B")


class Script(msgspec.Struct, frozen=True):
    """A script and its arguments.

    Attributes:
        path: of its file, absolute.
        args: what it gets as `sys.argv[1:]`.
        cwd: where it runs.
        strategy: the name of the strategy under which it is verified, empty until that is known.
        replicas: of that strategy, in sync.
        workers: of that strategy.
        ps: parameter servers of that strategy.
        first: how many steps are judged.
        assume: what the reference takes for the number of replicas at a line, by `FILE:LINE`.
        disturbed: whether it is to be killed, so that each step is looked at as soon as it was done, in all runs alike.
        updates: what the user says that closures are; None if nothing.
        repeated: how often each example stands in its batch.
        device_type: what its replicas compute on, as TensorFlow calls it.
        cells: of a notebook, which is run in place of what stands in the file.
    """

    path: str
    args: tuple[str, ...]
    cwd: str
    strategy: str = ""
    replicas: int = 1
    workers: int = 1
    first: int = FIRST_STEPS
    assume: dict[str, int] = {}
    disturbed: bool = False
    ps: int = 0
    updates: Updates | None = None
    repeated: int = 1
    device_type: str = "CPU"
    cells: tuple[NotebookCell, ...] = ()

    @classmethod
    def of(cls, command: Sequence[str], first: int = FIRST_STEPS, assume: Sequence[str] = ()) -> Script:
        """Read a command.

        Args:
            command: `python`, options of it that change no number, a file, and its arguments.
            first: how many steps are judged.
            assume: `FILE:LINE=N`, each of them what the number of replicas is in the reference at this line, or
                `closures=updates` or `closures=shares`, what closures of a coordinator are.

        Raises:
            UsageError: it is another command, or there is no such file; the message says what is accepted.
        """
        words: list[object] = list(command)
        if not words or not all(isinstance(each, str) for each in words):
            raise UsageError(f"{command!r} is no command; {_FORM}")
        program, *rest = command
        if _PYTHON.fullmatch(Path(program).name) is None:
            raise UsageError(f"{program!r} is not Python, and Lockstep starts only Python scripts; {_FORM}")
        _check_python(program)
        while rest and rest[0] in _HARMLESS:
            rest = rest[1:]
        if not rest or rest[0].startswith("-"):
            what = f"{rest[0]!r}" if rest else "nothing"
            raise UsageError(f"after {program} a file is expected, not {what}; {_FORM}")
        file = Path(rest[0])
        if not file.is_file():
            raise UsageError(f"there is no file {rest[0]!r}; {_FORM}")
        lines = [each for each in assume if not each.startswith(_CLOSURES)]
        return cls(
            str(file.resolve()),
            tuple(rest[1:]),
            str(Path.cwd()),
            first=_number(first),
            assume=_assumed(lines),
            updates=_updates([each for each in assume if each.startswith(_CLOSURES)]),
            cells=read_cells(file) if file.suffix == ".ipynb" else (),
        )

    def shown_cells(self) -> list[tuple[str, NotebookCell]]:
        """Those of a notebook, with what Python knows each by in this process from now on."""
        return list(show_to_python(self.path, self.cells))

    @property
    def name(self) -> str:
        """What reports call it."""
        return Path(self.path).name


def _check_python(program: str) -> None:
    """Refuse another Python than this one, which runs the script; a bare `python` is this one.

    Raises:
        UsageError: it is of another version, or of another environment.
    """
    path = Path(program).expanduser()
    match = _PYTHON.fullmatch(path.name)
    version = match["version"] if match is not None else None
    here = (str(sys.version_info.major), f"{sys.version_info.major}.{sys.version_info.minor}")
    # A virtual environment is the folder of its Python, which is a link to that of another one.
    is_ours = path.name == program or path.absolute().parent.resolve() == Path(sys.executable).parent.resolve()
    if not is_ours or version not in (None, *here):
        raise UsageError(
            f"Lockstep runs a script by the Python that it is installed in, {sys.executable}, and not by {program}"
            "; write python, or install Lockstep there and use its own command"
        )


def _number(first: int) -> int:
    given: object = first
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise UsageError(f"first={first!r} is no number of steps; give a whole number from 1")
    return first


def _assumed(assume: Sequence[str]) -> dict[str, int]:
    found = {}
    for each in assume:
        match = re.fullmatch(r"(?P<where>[^=]+(:|, line )\d+)=(?P<count>[1-9]\d*)", each)
        if match is None:
            raise UsageError(f"{each!r} is not understood; write FILE:LINE=N, for example train.py:12=1")
        found[match["where"]] = int(match["count"])
    return found


def _updates(assume: Sequence[str]) -> Updates | None:
    found: Updates | None = None
    for each in assume:
        for known in get_args(Updates):
            if each == f"{_CLOSURES}{known}":
                found = known
                break
        else:
            raise UsageError(f"{each!r} is not understood; write closures=updates or closures=shares")
    return found
