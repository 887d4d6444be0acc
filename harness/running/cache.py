"""Where runs on one device are kept that follow no other run: they serve whoever asks for the same program again."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from filelock import FileLock

from harness.running.dependencies import environment_digest
from harness.running.interpreter import Interpreter
from harness.subject.program import Program
from simulator import UsageError
from simulator.machines.local.scratch import make_scratch

CACHE_VARIABLE = "LOCKSTEP_CACHE"


@contextlib.contextmanager
def kept_in_cache(
    program: Program, seed: int, hardware: str, strategy: str, python: Interpreter | None
) -> Iterator[Path]:
    """The folder of such runs, which nobody else uses meanwhile.

    Args:
        program: that is run.
        seed: of the runs.
        hardware: that they compute on.
        strategy: under which one device computes.
        python: of the environment that makes them, None for this one.

    Raises:
        UsageError: nothing can be kept there.
    """
    place = "".join(f"-{each}" for each in (hardware, strategy) if each not in ("cpu", "default"))
    # Two environments may differ in a package that no digest stands for.
    other = "" if python is None else f"-python-{hashlib.sha256(python.path.encode()).hexdigest()[:12]}"
    directory = cache_folder() / f"{program.digest}-{seed}-{environment_digest()}{place}{other}"
    lock = FileLock(directory / "lock")
    with _said(directory.parent):
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield directory
    finally:
        lock.release()


def check_cache() -> None:
    """Fail before anything starts if nothing can be kept where `LOCKSTEP_CACHE` says.

    Raises:
        UsageError: as of `kept_in_cache`.
    """
    if given := os.environ.get(CACHE_VARIABLE):
        with _said(Path(given)):
            Path(given).mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _said(cache: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"reference runs cannot be kept in {cache}: {error.strerror}; {CACHE_VARIABLE} names where"
        ) from error


def cache_folder() -> Path:
    """`LOCKSTEP_CACHE`, shared within a test session, else a folder of this process."""
    given = os.environ.get(CACHE_VARIABLE)
    return Path(given) if given else _own_directory()


@lru_cache(maxsize=1)
def _own_directory() -> Path:
    return make_scratch("references")
