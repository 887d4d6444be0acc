"""A task enters a view of the file system that `simulator.helpers.private_files` holds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from simulator import kernel

VARIABLE = "LOCKSTEP_SERVER_FILES"
"""In the environment of servers, which write checkpoints: the view that they enter, and where they are in it."""

_OF_MACHINE = "LOCKSTEP_FILES"


def enter_view(holder: int) -> None:
    """See and write files as in the view that this process holds.

    To be called before the process has a second thread; its working directory is then the root.

    Args:
        holder: process id.

    Raises:
        OSError: it cannot be entered.
    """
    kinds = [("mnt", kernel.NEW_MOUNTS)]
    if _namespace("self", "user") != _namespace(holder, "user"):
        kinds.insert(0, ("user", kernel.NEW_USER))
    opened = [(os.open(f"/proc/{holder}/ns/{name}", os.O_RDONLY), kind) for name, kind in kinds]
    for descriptor, kind in opened:
        kernel.set_namespace(descriptor, kind)
        os.close(descriptor)
    if kinds[0][1] == kernel.NEW_USER:
        kernel.die_with_parent()  # which the change of user namespace has cleared


def given_view(holder: int, directory: str) -> dict[str, str]:
    """The variables of an environment in which servers enter a view, with this as their working directory."""
    return {VARIABLE: f"{holder}:{directory}"}


def enter_given_view() -> None:
    """Enter the view that the environment names, if it names one."""
    holder, _, directory = os.environ.get(VARIABLE, "").partition(":")
    if holder:
        enter_view(int(holder))
        os.chdir(directory)


def machine_view(holder: int, covered: tuple[str, ...], written: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that tell tasks of the view which their machine holds for them."""
    return {_OF_MACHINE: json.dumps([holder, covered, dict(written)])}


def view_of_machine() -> tuple[int, tuple[str, ...], dict[str, str]]:
    """What the environment tells of that view, for a task to enter: as of `machine_view`.

    Raises:
        RuntimeError: this machine holds none.
    """
    if _OF_MACHINE not in os.environ:
        raise RuntimeError("no view of the file system is held here, in which what this task writes would be private")
    holder, covered, written = json.loads(os.environ[_OF_MACHINE])
    return holder, tuple(covered), written


def _namespace(process: int | str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")  # noqa: PTH115 - what it leads to is no path
