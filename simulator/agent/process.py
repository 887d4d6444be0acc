"""What a fresh process of a task does first: a group of its own, death with its parent, output into its log."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
from typing import NoReturn

from simulator import kernel

# What Python itself ignores in each of its processes.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def join_no_one() -> None:
    """Own session and process group, and death with the forkserver (which dies with the parent)."""
    os.setsid()
    parent = os.getppid()
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # `lockstep doctor` says what its absence costs
            kernel.die_with_parent()
        if os.getppid() != parent:  # it died before the request took hold
            os._exit(1)


def fresh_signals(*, python: bool) -> None:
    """Nothing is ignored or blocked because that was so where Lockstep was started: under `nohup`, after `&` or `trap`.

    A task is in a session of its own, where no signal reaches it that is not meant for it: one sent by a fault or a
    test, say, which it could not obey.

    Args:
        python: a Python function will be called, with what Python makes of signals; else another program takes over.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN and not (python and number in _IGNORED_BY_PYTHON):
            is_ctrl_c = python and number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)


def redirect_output(log: str) -> None:
    """Append stdout and stderr, together, to this file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def without_input() -> None:
    """There is nobody to ask: stdin is empty."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)


def renew_modules() -> None:
    """Have modules forget what they remember of the forkserver: the temporary files of its parent, NumPy's generator.

    Python sees to its own generator after a fork. NumPy's would draw the same numbers in every task.
    """
    tempfile.tempdir = None
    if (random := sys.modules.get("numpy.random")) is not None:
        random.seed()


def leave(code: int) -> NoReturn:
    """End this process at once."""
    # Not sys.exit: a forgotten non-daemon thread must not keep the task alive, and TensorFlow's own shutdown would wait
    # for peers that may be gone.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
