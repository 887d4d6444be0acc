"""What the installed command `lockstep` calls; it has no business but signals until everything is imported.

Importing the packages takes a third of a second, in which Ctrl-C would end in a traceback from the middle of an import.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

__all__ = ["main"]


def _leave(number: int, frame: FrameType | None) -> None:
    """End at once: nothing has been started yet."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command with Lockstep's own packages, whatever the path finds first."""
    # One that is ignored, as of a job in the background of a script, stays so.
    mine = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if mine:
        signal.signal(signal.SIGINT, _leave)
    from _lockstep import names

    names.claim()
    from harness.cli import main as run

    code = run(early=_leave)
    if mine:
        # What remains is Python's own tidying, which is not to end in a traceback either.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
