"""Lockstep as users have it: by its installed command, from folders that are not the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from _lockstep import __version__

ROOT = Path(__file__).parents[1]
# What `pip install` has made of the entry point in pyproject.toml.
COMMAND = (str(Path(sys.executable).with_name("lockstep")),)
PACKAGES, MODULE = ("_lockstep", "harness", "simulator"), "lockstep.py"
_ENTRY_POINTS = "[pytest11]\nharness.plugin = _lockstep.plugin\n[console_scripts]\nlockstep = _lockstep.command:main\n"
_SECONDS_MAX = 120


def copied(folder: Path) -> Path:
    """The checkout as far as a build needs it, in a folder of its own, where a build may leave what it likes."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", MODULE):
        shutil.copy(ROOT / name, folder)
    return folder


def lay_out(site: Path) -> Path:
    """A folder as `pip install --target` fills it: the packages side by side, and what says that they are installed."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, site / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / MODULE, site)
    information = site / f"tf_lockstep-{__version__}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tf-lockstep\nVersion: {__version__}\n")
    (information / "entry_points.txt").write_text(_ENTRY_POINTS)
    return site


def run_there(
    folder: Path, *command: str, site: Path | None = None, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without anything by which pytest or a checkout would help it to find modules.

    Args:
        folder: the working directory.
        command: program and arguments.
        site: a folder made by `lay_out` whose Lockstep is to be used instead of that of this environment.
        code: the exit code that it must have; `None` for any.
    """
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    if site is not None:
        environ["PYTHONPATH"] = str(site)
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if code is not None and done.returncode != code:
        pytest.fail(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
