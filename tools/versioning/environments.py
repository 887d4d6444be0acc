"""The environments: which there are, how one is built by uv, and what is really installed in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from shutil import which

import msgspec

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_name("environments.toml")
_WHOLE = ".complete"
_BUILD_SECONDS_MAX = 1800
_ASKED = ("tensorflow", "keras", "tf_keras", "numpy", "protobuf")
_TELL = (
    "import json, platform, sys; from importlib.metadata import version; "
    "print(json.dumps({'python': platform.python_version(), **{name: version(name) for name in sys.argv[1:]}}))"
)


class Unavailable(Exception):
    """Raised when an environment cannot be had here; says why."""


class Environment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of environments.toml.

    Attributes:
        name: also of its folder.
        python: its minor version.
        packages: what is installed in it, with the version of each.
        between: it differs from another in its Keras alone, and only says where defects of Keras begin and end.
    """

    name: str
    python: str
    packages: dict[str, str]
    between: bool = False

    def interpreter(self, place: Path) -> Path:
        """Its Python, below the folder of all environments."""
        return place / self.name / "bin" / "python"

    def is_built(self, place: Path) -> bool:
        """Whether `build` has come to its end."""
        return (place / self.name / _WHOLE).exists()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    environment: list[Environment]


@lru_cache(maxsize=1)
def environments() -> tuple[Environment, ...]:
    """All of them, the oldest TensorFlow first."""
    return tuple(msgspec.toml.decode(FILE.read_bytes(), type=_File).environment)


def build(environment: Environment, place: Path, *, wheel: Path | None = None) -> None:
    """Make an environment with this checkout of Lockstep in it, unless it is there.

    Args:
        environment: which.
        place: the folder of all environments, outside of the checkout.
        wheel: of Lockstep, where it is not to be the checkout.

    Raises:
        Unavailable: there is no uv, no such Python, or a package cannot be installed.
    """
    if environment.is_built(place):
        return
    folder = place / environment.name
    uv = _uv()
    _call(uv, "venv", "--quiet", "--clear", "--python", _python(environment.python), str(folder))
    wanted = [f"{package}=={version}" for package, version in environment.packages.items()]
    ours = ["--editable", f"{ROOT}[report]"] if wheel is None else [f"{wheel}[report]"]
    tools = ["tensorboard", "setuptools>=77", "pip", "wheel"]
    python = str(environment.interpreter(place))
    _call(uv, "pip", "install", "--quiet", "--python", python, *wanted, *tools, *ours)
    (folder / _WHOLE).touch()


def installed(environment: Environment, place: Path) -> dict[str, str]:
    """The versions that an environment really has, by package, and `python`."""
    told: dict[str, str] = json.loads(_call(str(environment.interpreter(place)), "-c", _TELL, *_ASKED))
    return told


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else which("uv")
    if found is None:
        raise Unavailable("there is no uv, which makes the environments; have it with `pip install uv`")
    return found


def _python(minor: str) -> str:
    """The Python of a minor version, of pyenv or on the path; uv finds no shims that do not start."""
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{minor}.*/bin/python"))
    return str(of_pyenv[-1]) if of_pyenv else minor


def _call(*command: str) -> str:
    # A link into uv's cache where the file system has them: an environment is 2 GB.
    environ = {**os.environ, "UV_LINK_MODE": os.environ.get("UV_LINK_MODE", "hardlink")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=_BUILD_SECONDS_MAX, check=False)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-800:]}")
    return done.stdout
