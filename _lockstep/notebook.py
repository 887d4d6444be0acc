"""What `lockstep run` starts for `python NOTEBOOK ARGS`: its cells, one after another, as a program of their own."""

from __future__ import annotations

import sys
from pathlib import Path

from _lockstep import names

if __name__ == "__main__":
    names.claim()
    from harness.recording.scripts.cells import run_cells
    from harness.subject.notebook import read_cells

    path = Path(sys.argv[1]).resolve()
    sys.argv[:] = sys.argv[1:]
    sys.path[0] = str(path.parent)
    run_cells(str(path), read_cells(path))
