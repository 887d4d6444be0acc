"""Holds a view of the file system in which what is written is seen by those who have entered it, and by nobody else.

Directories are covered by overlays: reading one gives what was there before, or what was written in the view since.
The process reads what to cover from its first line of stdin, says on stdout that it is ready, and holds the view until
stdin ends. Tasks enter by `simulator.agent.private_files`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from simulator import kernel


def planned(covered: Sequence[str], kept: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The mounts that are needed, outermost first: each path, and whether it is covered or shown as it is.

    Args:
        covered: directories of which everything below is private.
        kept: directories, files and mounts within them that are not. What is covered may lie within these again.
    """
    wanted = {**dict.fromkeys(kept, False), **dict.fromkeys(covered, True)}
    done: dict[str, bool] = {}
    for path in sorted(wanted, key=lambda each: (each.count("/"), each)):
        around = [other for other in done if path.startswith(f"{other}/")]
        inside_covered = bool(around) and done[max(around, key=len)]
        if wanted[path] != inside_covered:
            done[path] = wanted[path]
            yield path, wanted[path]


def main() -> None:
    """Make the view, say so, and hold it."""
    asked = json.loads(sys.stdin.readline())
    try:
        in_own = _leave()
        mounts = list(planned(asked["covered"], asked["kept"]))
        written = _mount(mounts, [Path(place) for place in asked["places"]], in_own=in_own)
    except OSError as error:
        sys.stdout.write(json.dumps({"why": str(error)}) + "\n")
        return
    sys.stdout.write(json.dumps({"pid": os.getpid(), "written": written, "why": ""}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def _leave() -> bool:
    """Have mounts of one's own; whether that took a user namespace."""
    try:
        kernel.unshare(kernel.NEW_MOUNTS)
        in_own = False
    except OSError:  # only who may administer the machine can
        user, group = os.getuid(), os.getgid()
        kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS)
        kernel.map_user(user, user, group, group)
        in_own = True
    kernel.keep_mounts_private()
    return in_own


def _mount(mounts: Sequence[tuple[str, bool]], places: Sequence[Path], *, in_own: bool) -> dict[str, str]:
    """Make all mounts; by the folder where it is kept, the directory below which something is written."""
    # What is kept is reached by its descriptor when it has been covered.
    there = {path: os.open(path, os.O_PATH) for path, covered in mounts if not covered}
    written = {}
    for number, (path, covered) in enumerate(mounts):
        if covered:
            written[_cover(path, number, places, in_own=in_own)] = path
        else:
            kernel.bind_tree(f"/proc/self/fd/{there[path]}", path)
    return written


def _cover(path: str, number: int, places: Sequence[Path], *, in_own: bool) -> str:
    """Cover a directory; what is written goes to the first of these places whose file system can do that.

    Returns:
        The folder there.
    """
    lower = os.open(path, os.O_PATH)
    failed: OSError | None = None
    for place in places:
        upper, work = place / f"{number}-upper", place / f"{number}-work"
        for folder in (upper, work):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            kernel.mount_overlay(path, f"/proc/self/fd/{lower}", str(upper), str(work), in_own=in_own)
        except OSError as error:
            failed = error
        else:
            return str(upper)
    assert failed is not None
    raise failed
