"""An environment for each program: its packages, on top of the TensorFlow and the Lockstep of the one that makes it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

from tools.wilding.declared import Wild

PLACE = Path(tempfile.gettempdir()) / "wild"
"""Where they are, outside of every checkout."""
# Their packages have to work with these, or are not installed.
_KEPT = ("tensorflow", "keras", "tf_keras")
_SECONDS_MAX = 900


def python_of(wild: Wild, place: Path = PLACE) -> Path:
    """The interpreter of its environment."""
    return place / wild.name / "bin" / "python"


def is_ready(wild: Wild, place: Path = PLACE) -> bool:
    """Whether its environment is there, complete and of what it requires now."""
    complete = place / wild.name / ".complete"
    return complete.exists() and complete.read_text() == _contents(wild)


def _contents(wild: Wild) -> str:
    kept = [f"{name}=={version(name)}" for name in _KEPT]
    return "\n".join([sysconfig.get_path("purelib"), *kept, *wild.requirements])


def make(wild: Wild, place: Path = PLACE) -> None:
    """Make its environment.

    Modules that it does not have are looked for where this process has its own, so that TensorFlow is not installed
    for each program.

    Raises:
        CalledProcessError: a package cannot be installed next to this TensorFlow; its output says why.
    """
    home = place / wild.name
    (home / ".complete").unlink(missing_ok=True)
    _run([sys.executable, "-m", "venv", "--without-pip", "--clear", str(home)])
    python = python_of(wild, place)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "_around.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    pins = home / "pins.txt"
    pins.write_text("".join(f"{name}=={version(name)}\n" for name in _KEPT))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--only-binary", ":all:", "--constraint", str(pins)]
    if wild.without_their_own:
        _run([*pip, "--no-deps", *wild.without_their_own])
    if wild.dependencies:
        _run([*pip, *wild.dependencies])
    (home / ".complete").write_text(_contents(wild))


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=_SECONDS_MAX, cwd=tempfile.gettempdir())
