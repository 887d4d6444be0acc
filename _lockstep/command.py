"""What the installed command `lockstep` calls; it has no business but signals until everything is imported.

Importing the packages takes a third of a second, in which Ctrl-C would end in a traceback from the middle of an import.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes milliseconds, in which nobody hears Ctrl-C
import os
import sys


def _leave(number: int, frame: object) -> None:
    """End at once: nothing has been started yet."""
    os.write(2, b"interrupted\n")
    os._exit(128 + number)


def main() -> None:
    """Run the command with Lockstep's own packages, whatever the path finds first."""
    # One that is ignored, as of a job in the background of a script, stays so.
    mine = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if mine:
        _signal.signal(_signal.SIGINT, _leave)
    from _lockstep import names, temporary

    names.claim()
    temporary.find()
    from harness.cli import main as run

    code = run(early=_leave)
    if mine:
        # What remains is Python's own tidying, which is not to end in a traceback either.
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    sys.exit(code)
