"""What client tasks of a program execute: a function with `record`, or an unmodified script in a view of the files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.recording.client import THERE, FileView, run_client
from harness.recording.scripts import run_script
from harness.subject.program import Program
from harness.subject.script import Script
from harness.subject.strategies import StrategyCase
from simulator.agent.private_files import given_view
from simulator.machines.local.private_files import private_files


def client_of(program: Program) -> Callable[..., dict[str, Any]]:
    """The function that a client calls with the program, the strategy's case and its assignment."""
    return run_client if program.script is None else run_script


@contextlib.contextmanager
def viewed(program: Program, *own: Path, case: StrategyCase | None = None) -> Iterator[FileView | None]:
    """A view of the file system for one run of a script, and None for a function.

    Args:
        program: what is run.
        own: directories of this run, which are written to from within.
        case: under what, if that may be on other machines, each of which then holds a view of its own.

    Raises:
        PrivateFilesUnavailable: this machine gives none.
    """
    if program.script is None:
        yield None
    elif case is not None and case.over is not None:
        yield THERE
    else:
        with private_files(map(Path, _covered(program.script)), own) as view:
            yield FileView(view.holder, view.covered, dict(view.written))


def private_there(program: Program, case: StrategyCase) -> dict[str, Any]:
    """What a `Cluster` has to be told for other machines to hold views for a script."""
    return {} if program.script is None or case.over is None else {"private": _covered(program.script)}


def _covered(script: Script) -> list[str]:
    return [script.cwd, str(Path(script.path).parent)]


def env_of_servers(program: Program, case: StrategyCase, view: FileView | None) -> dict[str, str]:
    """The environment in which parameter servers write checkpoints where a script's coordinator looks for them."""
    if view is None or program.script is None or not case.ps:
        return {}
    return given_view(view.holder, program.script.cwd)
