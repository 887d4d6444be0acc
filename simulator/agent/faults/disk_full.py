"""A limit on the size of files."""

from __future__ import annotations

import errno
import resource
import tempfile

from simulator.agent.faults.actions import ActionReport


def act(report: ActionReport, size: int) -> None:
    """Let no file grow beyond `size` bytes, as on a full disk, and prove it with a file that tries."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bound = size if before == resource.RLIM_INFINITY else min(size, before)  # of another fault
    resource.setrlimit(resource.RLIMIT_FSIZE, (bound, hard))
    refused = ""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.truncate(bound)
        file.seek(bound)
        try:
            file.write(b"x")
        except OSError as error:
            refused = errno.errorcode[error.errno or 0]
    report(refused=refused, before=before, bound=size)
