"""What of a lock file a machine needs: for its version of Python, and for those that asked for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from packaging.markers import Marker
from packaging.utils import canonicalize_name

__all__ = ["needed"]

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
