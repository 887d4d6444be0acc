"""Defects that the soak has to find: each a change of a copy of Lockstep's code."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_PACKAGES = ("_lockstep", "harness", "simulator")


class _Defect(NamedTuple):
    """A text in a file, and what takes its place; and the invariant that does not hold then."""

    file: str
    before: str
    after: str
    invariant: str


DEFECTS = {
    "helper": _Defect(
        "simulator/run/run.py",
        '        self._how = "finished"\n',
        '        self._how = "finished"\n        import subprocess\n\n'
        '        subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)\n',
        "nothing left",
    ),
    "loss": _Defect(
        "simulator/helpers/hosts/filters.py",
        "        self._rule(self._some, _by_chance(loss), _counter(), verdict(_DROP))\n",
        "        self._rule(self._some, _by_chance(loss), _counter(), verdict(_DROP))\n"
        "        self._rule(self._some, _by_chance(loss), verdict(_DROP))\n",
        "as asked",
    ),
    "cause": _Defect(
        "simulator/run/run.py",
        "        if not (causes or self._cut_off()) and self._is_unled",
        "        if self._is_unled",
        "true cause",
    ),
    "file": _Defect(
        "simulator/machines/local/scratch.py",
        "    if why := remove_tree(directory):\n",
        '    if why := "":\n',
        "nothing left",
    ),
}
"""By name."""


@contextlib.contextmanager
def planted(name: str) -> Iterator[Path]:
    """A folder with a copy of the packages in which this defect is.

    Raises:
        LookupError: the text that it changes is there no more.
    """
    defect = DEFECTS[name]
    with tempfile.TemporaryDirectory(prefix="soak-defect-") as folder:
        for package in _PACKAGES:
            shutil.copytree(ROOT / package, Path(folder, package), ignore=shutil.ignore_patterns("__pycache__"))
        file = Path(folder, defect.file)
        text = file.read_text()
        if text.count(defect.before) != 1:
            raise LookupError(f"defect {name}: {defect.file} has its text {text.count(defect.before)} times")
        file.write_text(text.replace(defect.before, defect.after))
        yield Path(folder)
