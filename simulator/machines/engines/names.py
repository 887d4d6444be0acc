"""Names of machines, as users list them."""

from __future__ import annotations

import re

from simulator.errors import UsageError

__all__ = ["MOST", "names_of"]

MOST = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def names_of(listed: str, form: str) -> tuple[str, ...]:
    """The names in `NAME,NAME`.

    Args:
        listed: that.
        form: how it is to be written, for messages.

    Raises:
        UsageError: one is no name, or is there twice, or there are too many.
    """
    names = tuple(name.strip() for name in listed.split(","))
    for name in names:
        # Not one that a command could take for an option.
        if not _NAME.fullmatch(name):
            raise UsageError(f"--machines: {name!r} is no name of a machine; {form}")
    if len(set(names)) < len(names):
        raise UsageError(f"--machines names {listed} twice; give each machine once")
    if len(names) > MOST:
        raise UsageError(f"--machines has {len(names)} names; {MOST} is the most")
    return names
