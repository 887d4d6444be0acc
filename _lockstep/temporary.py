"""Where the command's temporary files go, found without a file that a killed process would leave."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def find() -> None:
    """Spare Python its trial of the directory, which has a name; where this one fails, Python looks on as ever."""
    named = next(filter(None, map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))), "/tmp")  # noqa: S108 - as Python has it
    with contextlib.suppress(OSError):
        directory = str(Path(named).absolute())
        file = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
        try:
            os.write(file, b"?")
        finally:
            os.close(file)
        tempfile.tempdir = directory
