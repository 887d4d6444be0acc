"""Runs the file of a script as `python FILE ARGS` does, or the cells of a notebook."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from harness.recording.scripts.cells import run_cells
from harness.subject.script import Script

__all__ = ["execute"]


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
        if script.cells:
            run_cells(script.path, script.cells)
        else:
            runpy.run_path(script.path, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"{script.name} ended itself with exit code {end.code!r}") from end
