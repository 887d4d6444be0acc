"""Runs the cells of a notebook as one program, with what IPython offers to it."""

from __future__ import annotations

import codeop
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from harness.subject.notebook import NotebookCell, is_harmless, show_to_python


class _Shell:
    """What `get_ipython()` gives: a shell that does nothing, where that is harmless."""

    def run_line_magic(self, name: str, line: str = "") -> None:
        """`%name line`."""
        _leave_out(f"%{name} {line}")

    def magic(self, text: str) -> None:
        """`%text`."""
        _leave_out(f"%{text}")

    def system(self, command: str) -> None:
        """`!command`."""
        _leave_out(f"!{command}")


def _leave_out(line: str) -> None:
    if not is_harmless(line):
        raise RuntimeError(f"{line!r} is for IPython and no Python, and it may change what follows; write it in Python")


def _display(*objects: object, **_: object) -> None:
    for each in objects:
        sys.stdout.write(f"{each!r}\n")


def run_cells(path: str, cells: Sequence[NotebookCell], names: Mapping[str, Any] | None = None) -> None:
    """Run them in their order in one namespace, as `__main__`, with these names besides Python's own.

    Raises:
        Exception: whatever a cell raises, with its lines in the traceback.
    """
    main, before = ModuleType("__main__"), sys.modules["__main__"]
    main.__dict__.update(names or {}, display=_display, get_ipython=_Shell)
    compiled = codeop.Compile()  # what a cell imports from __future__ holds in those after it
    sys.modules["__main__"] = main
    try:
        for file, cell in show_to_python(path, cells):
            exec(compiled(cell.source, file, "exec"), main.__dict__)  # noqa: S102 - the program that was asked for
    finally:
        sys.modules["__main__"] = before
