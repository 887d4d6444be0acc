"""A task enters a view of the file system that `simulator.helpers.private_files` holds."""

from __future__ import annotations

import os

from simulator import kernel

__all__ = ["enter_view"]


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


def _namespace(process: int | str, name: str) -> str:
    return os.readlink(f"/proc/{process}/ns/{name}")  # noqa: PTH115 - what it leads to is no path
