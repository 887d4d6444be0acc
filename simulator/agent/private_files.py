"""A task enters a view of the file system that `simulator.helpers.private_files` holds."""

from __future__ import annotations

import os

from simulator import kernel

__all__ = ["VARIABLE", "enter_given_view", "enter_view", "given_view"]

VARIABLE = "LOCKSTEP_SERVER_FILES"
"""In the environment of servers, which write checkpoints: the view that they enter, and where they are in it."""


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


def _namespace(process: int | str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")  # noqa: PTH115 - what it leads to is no path
