"""What client tasks of a program execute: a function with `record`, or an unmodified script in a view of the files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.recording.client import View, run_client
from harness.recording.scripts import run_script
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator.agent.private_files import given_view
from simulator.machines.local.private_files import private_files

__all__ = ["client_of", "env_of_servers", "viewed"]


def client_of(program: Program) -> Callable[..., dict[str, Any]]:
    """The function that a client calls with the program, the strategy's case and its assignment."""
    return run_client if program.script is None else run_script


@contextlib.contextmanager
def viewed(program: Program, *own: Path) -> Iterator[View | None]:
    """A view of the file system for one run of a script, and None for a function.

    Args:
        program: what is run.
        own: directories of this run, which are written to from within.

    Raises:
        PrivateFilesUnavailable: this machine gives none.
    """
    if program.script is None:
        yield None
        return
    with private_files([Path(program.script.cwd), Path(program.script.path).parent], own) as view:
        yield View(view.holder, view.covered, dict(view.written))


def env_of_servers(program: Program, case: StrategyCase, view: View | None) -> dict[str, str]:
    """The environment in which parameter servers write checkpoints where a script's coordinator looks for them."""
    if view is None or program.script is None or not case.ps:
        return {}
    return given_view(view.holder, program.script.cwd)
