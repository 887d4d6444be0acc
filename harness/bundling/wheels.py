"""From a checkout to a bundle: wheels are fetched by pip for another machine, and Lockstep's own is built."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import itertools
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.bundling.packing import pack
from simulator import LockstepError, UsageError

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
_EXTRAS = ("scenarios", "tf-keras")
# What a bundle has besides wheels: the scenarios, as `lockstep certify` runs them.
_CARRIED = ("scenarios", "conftest.py")
_BUILT_FROM = ("_lockstep", "harness", "simulator", "pyproject.toml", "README.md", "LICENSE")
# The C library of the oldest systems for which wheels are taken: TensorFlow's own need 2.27.
_GLIBC_MINOR_MAX = 28
_LEAST_PART_BYTES = 1024
_SHOWN_LINES = 3


@dataclass(frozen=True)
class Bundle:
    """What was written: how many parts, of how many bytes together, with how many wheels."""

    parts: int
    size_bytes: int
    wheels: int


def bundle(
    directory: Path,
    *,
    part_bytes: int,
    python: str,
    cuda: bool = False,
    more: Sequence[str] = (),
    root: Path | None = None,
) -> Bundle:
    """Write parts, checksums and an installer into a directory that does not exist yet.

    Args:
        directory: to be made; nothing is left of it if this fails.
        part_bytes: the largest size of a part.
        python: of the machine without a network, one of `PYTHONS`.
        cuda: take NVIDIA's libraries along, as TensorFlow asks for them.
        more: requirements besides, without what they need themselves.
        root: the checkout; by default the one that this code is in.

    Raises:
        UsageError: a size, version or directory that will not do, or this is no checkout.
        LockstepError: pip failed.
    """
    checkout = root or Path(__file__).parents[2]
    _check(directory, part_bytes, python, checkout)
    with tempfile.TemporaryDirectory(prefix="lockstep-bundle-") as place:
        contents = Path(place, "contents")
        wheels = contents / "wheels"
        wheels.mkdir(parents=True)
        listed = Path(place, "requirements.txt")
        listed.write_text(_locked(checkout, python))
        _build(checkout, Path(place, "source"), wheels)
        _fetch(listed, wheels, python, [*(_cuda() if cuda else ()), *more])
        for name in _CARRIED:
            _copy(checkout / name, contents / name)
        with _made(directory):
            parts = pack(contents, directory, part_bytes, python)
        size = sum(path.stat().st_size for path in directory.iterdir())
        return Bundle(parts, size, len(list(wheels.iterdir())))


def _check(directory: Path, part_bytes: int, python: str, checkout: Path) -> None:
    if python not in PYTHONS:
        raise UsageError(f"there are no bundles for Python {python!r}; accepted are {', '.join(PYTHONS)}")
    if part_bytes < _LEAST_PART_BYTES:
        raise UsageError(f"parts of {part_bytes} bytes are too small; give 1KiB or more, such as 58MiB")
    if directory.exists() or directory.is_symlink():
        raise UsageError(f"{directory} exists already; name a directory that does not")
    if not directory.absolute().parent.is_dir():
        raise UsageError(f"there is no directory {directory.absolute().parent}")
    if missing := [
        name for name in ("requirements.lock", "pyproject.toml", *_CARRIED) if not (checkout / name).exists()
    ]:
        raise UsageError(f"a bundle is made from a checkout of Lockstep, and {checkout} has no {', '.join(missing)}")


@contextlib.contextmanager
def _made(directory: Path) -> Iterator[None]:
    directory.mkdir()
    try:
        yield
    except BaseException:
        shutil.rmtree(directory)
        raise


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        shutil.copy(source, target)


def _build(checkout: Path, source: Path, wheels: Path) -> None:
    """Lockstep's own wheel, from a copy: a build leaves files beside what it builds."""
    source.mkdir()
    for name in _BUILT_FROM:
        _copy(checkout / name, source / name)
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("setuptools") else []
    _pip("wheel", "--no-deps", *isolation, "--wheel-dir", str(wheels), str(source))


def _fetch(listed: Path, wheels: Path, python: str, more: Sequence[str]) -> None:
    """The wheels of the lock file, held against its checksums, and then those without any."""
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *_platforms()]
    download = ("download", "--no-deps", *target, "--dest", str(wheels))
    _pip(*download, "--require-hashes", "--requirement", str(listed))
    if more:
        _pip(*download, *more)


def _locked(checkout: Path, python: str) -> str:
    """The lines of the lock file that the machine needs."""
    try:
        wanted = needed(
            (checkout / "requirements.lock").read_text(), _roots(checkout, python), python, platform.machine()
        )
    except ValueError as error:
        raise UsageError(f"requirements.lock is not that of pyproject.toml: {error}; `make lock` writes it") from error
    return "\n".join([*wanted, ""])


def _roots(checkout: Path, python: str) -> list[str]:
    """What Lockstep needs there, with the extras that scenarios and certificates want."""
    project = msgspec.toml.decode((checkout / "pyproject.toml").read_bytes())["project"]
    extras = (project["optional-dependencies"][name] for name in _EXTRAS)
    asked = map(Requirement, itertools.chain(project["dependencies"], *extras))
    there = {"python_version": python, "sys_platform": "linux"}
    return [each.name for each in asked if each.marker is None or each.marker.evaluate(there)]


def _cuda() -> list[str]:
    """NVIDIA's libraries, as the installed TensorFlow asks for them."""
    asked = [Requirement(text) for text in importlib.metadata.requires("tensorflow") or ()]
    named = [each for each in asked if each.marker is not None and "and-cuda" in str(each.marker)]
    return [f"{each.name}{each.specifier}" for each in named]


def _platforms() -> list[str]:
    machine = platform.machine()
    minors = [f"manylinux_2_{minor}" for minor in range(_GLIBC_MINOR_MAX, 4, -1)]
    return [
        f"--platform={name}_{machine}" for name in (*minors, "manylinux2014", "manylinux2010", "manylinux1", "linux")
    ]


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise LockstepError(f"pip {arguments[0]} failed: " + "\n  ".join(said[-_SHOWN_LINES:]))


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class _Locked:
    """One entry: its lines as pip reads them, its name, when it applies, and who needs it."""

    lines: tuple[str, ...]
    name: str
    marker: str
    needed_by: frozenset[str]

    def applies(self, environment: dict[str, str]) -> bool:
        return not self.marker or Marker(self.marker).evaluate(environment)


def needed(lock: str, roots: Collection[str], python: str, machine: str) -> list[str]:
    """The entries for a machine with Linux, each with its checksums, as pip reads them.

    pip itself would look at the markers of the Python that runs it, and not of the one that it loads wheels for.

    Args:
        lock: a lock file as `uv pip compile --universal --generate-hashes` writes it, with who needs what in comments.
        roots: names of the packages that are wanted.
        python: such as `3.12`.
        machine: such as `x86_64`.

    Raises:
        ValueError: a root is not in the lock file.
    """
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    there = [entry for entry in _entries(lock) if entry.applies(environment)]
    wanted: set[str] = {canonicalize_name(name) for name in roots}
    if missing := wanted - {entry.name for entry in there}:
        raise ValueError(f"not in the lock file: {', '.join(sorted(missing))}")
    while more := {entry.name for entry in there if entry.name not in wanted and entry.needed_by & wanted}:
        wanted.update(more)
    return ["\n".join(entry.lines) for entry in there if entry.name in wanted]


def _entries(lock: str) -> Iterator[_Locked]:
    found: list[tuple[list[str], list[str]]] = []
    for line in lock.splitlines():
        if _NAME.match(line):
            found.append(([line], []))
        elif found and line.lstrip().startswith("#"):
            found[-1][1].append(line.strip("# ").removeprefix("via").strip())
        elif found and line.strip():
            found[-1][0].append(line)
    for lines, comments in found:
        pinned, _, marker = lines[0].rstrip("\\ ").partition(";")
        names = frozenset(canonicalize_name(each.split()[0]) for each in comments if each)
        yield _Locked(tuple(lines), canonicalize_name(pinned.partition("==")[0].strip()), marker.strip(), names)
