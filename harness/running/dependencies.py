"""What a kept reference depends on: it is made again when any of that has changed since.

The name of its folder has the program, the seed, and what of this machine its numbers follow from: the versions of
Python, TensorFlow, Keras and NumPy, and Lockstep's own code. Of the files that it has read, modules of the project and
data that Python opened, each run keeps the content as a hash. What TensorFlow reads in C++ is not heard of, nor are
environment variables: a cache that outlives a session has to be keyed by those.
"""

from __future__ import annotations

import hashlib
import math
import os
import platform
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from harness.evidence.independence import Touch
from simulator.machines.local import facts

_DEPENDS = "depends.json"
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy", "ml_dtypes")
_DIGITS = 12
_PART_BYTES = 1 << 20
# By so much the time of a file may be behind the clock, which Linux asks at each of its ticks.
_CLOCK_SECONDS = 0.01


class _Known(msgspec.Struct, frozen=True):
    """A file as it was: by its time and size, and by its content where those are others."""

    path: str
    changed_ns: int
    size: int
    content: str


@lru_cache(maxsize=1)
def environment_digest() -> str:
    """Stands for the versions on this machine, and for Lockstep's own code."""
    found = hashlib.sha256(f"{platform.python_version()} {platform.machine()}".encode())
    for package in _PACKAGES:
        try:
            found.update(f" {package} {version(package)}".encode())
        except PackageNotFoundError:
            continue
    found.update(code_digest().encode())
    return found.hexdigest()[:_DIGITS]


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Stands for Lockstep's own code."""
    return facts.code_digest("harness")


def keep_depends(folder: Path, touches: Iterable[Touch], script: str | None = None) -> None:
    """Note in a run's folder the files that it has read and not written, as they were then.

    What they held then is known if they have not been changed since the run began to read. One that has been is noted
    as what is never the same again.

    Args:
        folder: of the run.
        touches: what it has done with files.
        script: the file of an unmodified script. What it reads below its view of the file system is not among the
            touches; so all Python beside it counts as read.
    """
    touches = [*touches, *(Touch(str(path), 0.0, writes=False) for path in _beside(script))]
    written = {touch.path for touch in touches if touch.writes}
    installed = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})  # versions stand for it
    read = {touch.path for touch in touches if not touch.writes} - written
    # A module is noted at the end of the run, and was read before.
    began = min((touch.at for touch in touches if touch.at), default=math.inf)
    known = [
        _as_of(began, Path(path)) for path in sorted(read) if not path.startswith(installed) and Path(path).is_file()
    ]
    (folder / _DEPENDS).write_bytes(msgspec.json.encode([each for each in known if each is not None]))


def still_the_same(folder: Path) -> bool:
    """Whether all that a run has read is as it was; a run that has kept nothing of that counts as another."""
    try:
        kept = msgspec.json.decode((folder / _DEPENDS).read_bytes(), type=list[_Known])
    except (OSError, msgspec.DecodeError):
        return False
    return all(map(_is_same, kept))


def _beside(script: str | None) -> Iterator[Path]:
    """Every Python file in the folder of a script, and in the packages there."""
    if script is None:
        return
    for folder, inner, files in os.walk(Path(script).resolve().parent):
        inner[:] = [name for name in inner if (Path(folder) / name / "__init__.py").exists()]
        yield from (Path(folder) / name for name in files if name.endswith(".py"))


def _is_same(known: _Known) -> bool:
    path = Path(known.path)
    try:
        stat = path.stat()
    except OSError:
        return False
    if (stat.st_mtime_ns, stat.st_size) == (known.changed_ns, known.size):
        return True
    now = _known(path) if stat.st_size == known.size else None
    return now is not None and now.content == known.content


def _as_of(began: float, path: Path) -> _Known | None:
    known = _known(path)
    try:
        # Not its time of modification, which comes along with a file that takes the place of another.
        changed = path.stat().st_ctime > began - _CLOCK_SECONDS
    except OSError:
        changed = True
    return known if known is None or not changed else _Known(known.path, -1, -1, "")


def _known(path: Path) -> _Known | None:
    found = hashlib.sha256()
    try:
        stat = path.stat()
        with path.open("rb") as file:
            while part := file.read(_PART_BYTES):
                found.update(part)
    except OSError:
        return None
    return _Known(str(path), stat.st_mtime_ns, stat.st_size, found.hexdigest())
