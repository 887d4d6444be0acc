"""Where things are kept for all processes of a user, from one session to the next."""

from __future__ import annotations

import os
from pathlib import Path

BUILDS_VARIABLE = "LOCKSTEP_BUILDS"


def cache_folder() -> Path:
    """`$LOCKSTEP_BUILDS`, or else a folder below `$XDG_CACHE_HOME` or `~/.cache`; it need not exist."""
    if given := os.environ.get(BUILDS_VARIABLE):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lockstep"
