"""Room on a disk: what to do about an error for want of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ADVICE = "; make room there, or set TMPDIR to a directory that has some"


def no_room(error: BaseException) -> str:
    """What to do about an error for want of room on a disk; empty for any other."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return ""
    return _ADVICE


def full_disk(path: Path) -> str:
    """The same if the file system of this path has no room left: what has failed there may be due to that."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return ""
    full = found.f_blocks and not found.f_bavail
    # Logs that are kept are where the user wants them, and the run itself is not.
    kept = path.parent.is_symlink()
    advice = "; make room there, or name another directory" if kept else _ADVICE
    return f"; there is no room left in {path.parent.resolve()}{advice}" if full else ""
