"""Imported first in a forkserver: sends its noise to a file, then imports what tasks will need.

Only imports happen here. A TensorFlow op, or even listing devices, would start threads, and a process with threads must
not be forked.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from multiprocess import forkserver

from simulator.agent.site.sitecustomize import SAVES, watch
from simulator.helpers.adopters import go_below_adopters
from simulator.helpers.warden import FORKSERVER_VARIABLE
from simulator.wire.forking import STAMPED

# As `multiprocess` writes a number.
_NUMBER = struct.Struct("q")


def _preload() -> None:
    # A server that does not hear of the end of its children would be silent for ever.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    forkserver.write_signed = _Stamping()
    forkserver._serve_one = partial(_serve_alone, forkserver._serve_one)  # noqa: SLF001 - no other way is offered
    # What a task starts is known by the mark of its run.
    os.environ.pop(FORKSERVER_VARIABLE, None)
    log = os.environ.pop("LOCKSTEP_FORKSERVER_LOG")
    # The directory was for the imports until now; who is forked has its own, or that of the parent.
    tempfile.tempdir = None
    del os.environ["TMPDIR"]
    if before := os.environ.pop("LOCKSTEP_TMPDIR"):
        os.environ["TMPDIR"] = before
    try:
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except FileNotFoundError:
        sys.exit(1)  # whoever wanted tasks has been interrupted, and its directory is gone
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    os.close(fd)
    go_below_adopters(Path(log).with_name("pid"))
    # Also for what a task imports by itself. Nothing is recorded where no agent is.
    watch(SAVES)
    # Looking for garbage among what is being imported costs a sixth of that, and there is next to none.
    gc.disable()
    # What every task that calls a function begins with.
    for name in ("simulator.agent.main", *os.environ.pop("LOCKSTEP_PRELOAD").split()):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - whatever an import may raise
            # A module that cannot be imported here fails again, with its traceback, in the task that needs it.
            traceback.print_exc()
    sys.stderr.flush()
    # Keeps the collector from touching, and so copying, the pages that all tasks share.
    gc.collect()
    gc.freeze()
    gc.enable()


class _Stamping:
    """Says with each exit code when that was seen: who has to be told may be busy, and hear of others first."""

    def __init__(self) -> None:
        # Pipes through which a process has been named, and its end has not been said.
        self._named: set[int] = set()

    def __call__(self, pipe: int, number: int) -> None:
        if pipe in self._named:
            self._named.remove(pipe)
            os.write(pipe, STAMPED.pack(number, time.monotonic()))  # so few bytes are written whole
        else:
            self._named.add(pipe)
            os.write(pipe, _NUMBER.pack(number))


def _serve_alone(serve: Callable[..., int], child: int, fds: list[int], *others: Any) -> int:
    """Be a forked process that has no part in the life of its forkserver.

    `multiprocess` hands to each the end of the pipe at whose close the forkserver ends, so that every process could use
    it, and the like for its tracker of resources. They would pass on to whatever a program starts: one daemon that
    outlives all of us would keep both alive for as long.
    """
    alive, tracker, *inherited = fds
    os.close(alive)
    os.close(tracker)
    return serve(child, [None, None, *inherited], *others)


_preload()
