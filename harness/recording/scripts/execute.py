"""Runs the file of a script as `python FILE ARGS` does, or the cells of a notebook."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn
from unittest import mock

from harness.recording.scripts.cells import run_cells
from harness.subject.script import Script

__all__ = ["execute"]

_OURS = ("harness", "simulator")


def execute(script: Script) -> None:
    """Run it as `__main__`, in its directory, with its arguments.

    Raises:
        RuntimeError: it has ended itself with another exit code than 0.
        Exception: whatever it raises.
    """
    os.chdir(script.cwd)
    sys.argv = [script.path, *script.args]
    sys.path.insert(0, str(Path(script.path).parent))
    try:
        with mock.patch.object(os, "_exit", _leaving(os._exit)):
            _run(script)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"{script.name} ended itself with exit code {end.code!r}") from end


def _run(script: Script) -> None:
    if script.cells:
        run_cells(script.path, script.cells)
    else:
        runpy.run_path(script.path, run_name="__main__")


def _leaving(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """`os._exit` for the script's main thread, which ends the script: the process has still to say what was seen.

    Faults, and what must not go on, end it at once.
    """
    process, thread = os.getpid(), threading.current_thread()

    def end(status: int) -> NoReturn:
        caller = str(sys._getframe(1).f_globals.get("__name__"))  # noqa: SLF001 - nothing public tells
        if caller.partition(".")[0] in _OURS or (os.getpid(), threading.current_thread()) != (process, thread):
            leave(status)
        raise SystemExit(status)

    return end
