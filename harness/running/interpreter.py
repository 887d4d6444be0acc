"""The Python of another environment, and what is known of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from _lockstep import __version__
from _lockstep.names import HOME
from harness.running.dependencies import code_digest
from simulator import UsageError
from simulator.capabilities.versions import why_refused

_PROBE_SECONDS_MAX = 60.0
# The working directory does not count: it may hold anything.
_START = "import sys; sys.path[:] = [each for each in sys.path if each]; "
_PROBE = (
    _START + "import json, platform\n"
    "from importlib.metadata import PackageNotFoundError, version\n"
    "told = {'python': platform.python_version()}\n"
    "for name in sys.argv[1:]:\n"
    "    try: told[name] = version(name)\n"
    "    except PackageNotFoundError: pass\n"
    "try:\n"
    "    from _lockstep.elsewhere import code\n"
    "    told['code'] = code()\n"
    "except ImportError as error: told['lacks'] = str(error)\n"
    "print(json.dumps(told))\n"
)
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy", "tf-lockstep")


class Interpreter(msgspec.Struct, frozen=True):
    """The Python of another environment that has TensorFlow and this Lockstep.

    Attributes:
        path: absolute; of a virtual environment the link in its folder.
        versions: of Python and of the packages that numbers depend on.
    """

    path: str
    versions: dict[str, str]

    @classmethod
    def of(cls, path: str | Path | Interpreter) -> Interpreter:
        """Ask a Python what it has; one that has been asked is as it is.

        Raises:
            UsageError: it is no Python that could make a reference; the message says what to do.
        """
        if isinstance(path, Interpreter):
            return path
        place = Path(path).expanduser().absolute()
        told = _probed(place)
        ours = f"{place} -m pip install {_ours()}"
        if "tensorflow" not in told:
            raise UsageError(
                f"{place} has no TensorFlow (Python {told.get('python')}), so no reference can be made there; install "
                "what the training needs, or name another environment's Python"
            )
        if why := why_refused(told["tensorflow"]):
            raise UsageError(f"{place}: {why}")
        if "code" not in told:
            raise UsageError(
                f"{place} has no Lockstep that can be imported ({told.get('lacks')}); both environments need it: {ours}"
            )
        if told["code"] != code_digest():
            raise UsageError(
                f"{place} has another Lockstep (version {told.get('tf-lockstep')}, with other code than this one), and "
                f"runs are compared of one and the same only: {ours}"
            )
        return cls(str(place), {name: text for name, text in told.items() if name not in ("code", "tf-lockstep")})

    def running(self, code: str, *arguments: str) -> list[str]:
        """The command that runs code there; the working directory does not count for what it imports."""
        return [self.path, "-c", _START + code, *arguments]


def its_environ() -> dict[str, str]:
    """Ours without what would have the other Python load the libraries of this one."""
    return {name: text for name, text in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}


def _probed(place: Path) -> dict[str, str]:
    if not place.is_file():
        raise UsageError(f"there is no Python {place}; name the interpreter of an environment, such as old/bin/python")
    try:
        done = subprocess.run(
            [str(place), "-c", _PROBE, *_PACKAGES],
            env=its_environ(),
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{place} does not start as a Python: {error}") from error
    try:
        return msgspec.json.decode(done.stdout.encode(), type=dict[str, str])
    except msgspec.DecodeError as error:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UsageError(f"{place} is no Python from 3.10 on: {said}") from error


def _ours() -> str:
    """What to install for the same Lockstep."""
    return str(HOME) if (HOME / "pyproject.toml").exists() else f"tf-lockstep=={__version__}"
