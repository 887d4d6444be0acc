"""What this machine does not give, said in one sentence instead of with the place in the code where it was missed."""

from __future__ import annotations

import errno
import os
import tempfile

__all__ = ["limit_of"]

_LIMITS = {
    errno.EMFILE: "this process may open no more files; raise the limit with `ulimit -n`",
    errno.ENFILE: "this machine may open no more files; close what is not needed",
    errno.EAGAIN: "no more processes or threads may be started; raise the limit with `ulimit -u`, or end what runs",
    errno.ENOMEM: "there is not enough memory for another process",
    errno.ENOSPC: "no space is left on the device; free some, or name another directory with TMPDIR",
    errno.EDQUOT: "the quota of the disk is used up; free some space, or name another directory with TMPDIR",
    errno.EROFS: "the file system cannot be written to; name another directory with TMPDIR",
    errno.EACCES: "permission is denied",
}


def limit_of(error: BaseException) -> str | None:
    """The sentence, if the cause of an exception is a limit of the machine; else it is a defect of Lockstep."""
    while True:
        if isinstance(error, OSError) and error.errno in _LIMITS:
            where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, (str, bytes)) else ""
            return f"{_LIMITS[error.errno]}{where}"
        if isinstance(error, MemoryError):
            return _LIMITS[errno.ENOMEM]
        if isinstance(error, FileNotFoundError) and not _has_temporary():
            return "no temporary directory can be written to; name one with TMPDIR"
        # Python has no exception of its own for this.
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return _LIMITS[errno.EAGAIN]
        if error.__cause__ is None:
            return None
        error = error.__cause__


def _has_temporary() -> bool:
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        return False
    return True
