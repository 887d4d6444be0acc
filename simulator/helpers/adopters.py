"""Two processes above a forkserver: they adopt what loses its parents below, and end it when the forkserver ends.

A daemon that has left its session and emptied its environment is known by nothing but who has adopted it. The
forkserver does not adopt, so that whatever it has forked is told from orphans by who its parent is. There are two, so
that nothing is left when one of the three is killed: an adopter whose child has ended ends all that is below, and so
does one whose parent has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any, NoReturn

from simulator import kernel
from simulator.helpers.warden import kill_orphans


def go_below_adopters(named: Path) -> None:
    """Go on in a grandchild, which ends when its parent does; this process and the one between adopt.

    Args:
        named: the link that says the number of that process when this returns.
    """
    above = None
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(OSError):  # `lockstep doctor` says what its absence costs
            kernel.adopt_orphans()
        parent = os.getpid()
        if child := os.fork():
            _adopt(child, above)
        above = parent
        with contextlib.suppress(OSError):  # as above
            kernel.die_with_parent(number)
        if os.getppid() != above:  # it has ended before that held
            os._exit(1)
    new = named.with_name(f"{named.name}.new")
    new.unlink(missing_ok=True)
    # No file, which a limit may keep from being written, and for which whoever reads it needs a descriptor.
    new.symlink_to(str(os.getpid()))
    new.replace(named)


def _adopt(child: int, above: int | None) -> NoReturn:
    """Wait for the end of the child, or for the word that the parent has ended; then end all that is below."""
    signal.signal(signal.SIGTERM, _end_all)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # What the forkserver serves by belongs to it alone: who connects when it has ended must not wait for an answer.
    # Those that are there: the limit may be a billion.
    for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    if above not in (None, os.getppid()):
        _end_all()  # the word came before it was listened for
    while os.wait()[0] != child:
        pass
    _end_all()


def _end_all(*_: Any) -> NoReturn:
    kill_orphans(os.getpid())
    os._exit(0)
