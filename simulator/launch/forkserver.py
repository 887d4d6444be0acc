"""Starts tasks by forking a process that has already imported TensorFlow.

Importing TensorFlow costs seconds; from a preloaded forkserver a task runs its first op about 50 ms after it was asked
for. Built on `multiprocess`, whose pickler (dill) carries closures and lambdas. Unlike `multiprocess` itself, a task
never imports the caller's `__main__`: what it runs arrives complete, so that a script needs no `if __name__ ==
"__main__"` guard.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import multiprocess
from multiprocess import connection
from multiprocess import forkserver as mp_forkserver

from _lockstep import children
from _lockstep.preloads import also_preload, asked_for
from simulator.errors import DeadlineExceeded, ForkserverEnded
from simulator.helpers.warden import FORKSERVER_VARIABLE, kill_orphans
from simulator.launch.environment import changed_environment
from simulator.launch.protocol import EntryPoint
from simulator.machines.local.orphans import orphans
from simulator.machines.local.scratch import make_scratch
from simulator.machines.local.warden import warden
from simulator.wire.forking import Popen, Server

__all__ = ["DEFAULT_PRELOAD", "ForkedProcess", "Forkserver", "also_preload", "at_import", "fork", "forkserver"]

# tf_keras costs 0.1 s on top of TensorFlow (which imports Keras 3 itself).
DEFAULT_PRELOAD = ("tensorflow", "tf_keras")
# What TensorFlow and Keras read when they are imported, and never again.
_AT_IMPORT = (
    "TF_PLUGGABLE_DEVICE_LIBRARY_PATH",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_USE_LEGACY_KERAS",
    "KERAS_BACKEND",
    "KERAS_HOME",
)
# Each of the two kills for 5 s at most.
_ADOPTERS_SECONDS_MAX = 15.0


@dataclass
class ForkedProcess:
    """A started process: its pid, and a file descriptor that becomes readable when it has ended."""

    pid: int
    sentinel: int
    _popen: Any = field(repr=False)

    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; `None` while the process runs. Does not block."""
        code: int | None = self._popen.poll()
        return code

    @property
    def lost(self) -> bool:
        """Whether it has ended, and how is not known, since the forkserver was killed that had started it."""
        lost: bool = self._popen.lost
        return lost

    @property
    def ended_at(self) -> float | None:
        """When its end was seen where it was forked, in seconds of CLOCK_MONOTONIC; `None` if that is not known."""
        at: float | None = self._popen.ended_at
        return at

    def wait(self) -> None:
        """Wait for the end of the process."""
        self._popen.wait()

    def end(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it if it does not come within so many seconds."""
        if not connection.wait([self.sentinel], seconds):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.wait()


class Forkserver:
    """One forkserver process and the modules it has imported; it ends with this process.

    Args:
        preload: the modules.
        variables: of its environment, besides this process's.
    """

    def __init__(self, preload: Iterable[str] = DEFAULT_PRELOAD, variables: Iterable[tuple[str, str]] = ()) -> None:
        self.preload = tuple(preload)
        self._variables = dict(variables)
        self._server = mp_forkserver.ForkServer()
        self._server.set_forkserver_preload([children.PRELOAD, "simulator.helpers._preload"])
        self._context = multiprocess.get_context("forkserver")
        self._lock = threading.Lock()
        self._log: Path | None = None
        self._mark = uuid.uuid4().hex

    def start(self, target: Callable[..., object], args: tuple[Any, ...], name: str) -> ForkedProcess:
        """Start `target(*args)` in a fresh process called `name`.

        Raises:
            ForkserverEnded: it was killed meanwhile, or could not begin.
        """
        with self._lock:
            try:
                try:
                    popen = self._popen(target, args, name)
                except ConnectionRefusedError:  # it was killed before, and its adopters are about to end as well
                    self._wait_for_adopters()
                    popen = self._popen(target, args, name)
            except (EOFError, ConnectionError) as error:
                raise ForkserverEnded(f"the forkserver {self._end()} {name}") from error
        return ForkedProcess(pid=popen.pid, sentinel=popen.sentinel, _popen=popen)

    def _popen(self, target: Callable[..., object], args: tuple[Any, ...], name: str) -> Popen:
        self._ensure_running()
        address = self._server._forkserver_address  # noqa: SLF001 - no other way is offered
        return Popen(self._context.Process(target=target, args=args, name=name), Server(address))

    def _end(self) -> str:
        """How it has ended: with an exit code only where it had not come as far as its adopters."""
        pid: int = self._server._forkserver_pid  # noqa: SLF001 - no other way is offered
        with contextlib.suppress(ChildProcessError, ProcessLookupError):  # somebody has waited for all that end
            self._wait_for_adopters()
            seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            if seen is not None and seen.si_code == os.CLD_EXITED and seen.si_status:
                return f"could not begin (it ended with exit code {seen.si_status}), and so not start"
        return "was killed while it started"

    def _wait_for_adopters(self) -> None:
        ended = os.pidfd_open(self._server._forkserver_pid)  # noqa: SLF001 - no other way is offered
        try:
            if not connection.wait([ended], _ADOPTERS_SECONDS_MAX):
                raise DeadlineExceeded("the adopters of a killed forkserver to end", _ADOPTERS_SECONDS_MAX)
        finally:
            os.close(ended)

    @property
    def pid(self) -> int | None:
        """Process id of the server, which has two adopters above it; `None` before it can fork."""
        try:
            return None if self._log is None else int(self._log.with_name("pid").readlink().name)
        except FileNotFoundError:
            return None

    def end_orphans(self) -> list[int]:
        """SIGKILL what its processes have started that has lost its parents; their process ids."""
        with self._lock:
            adopter: int | None = self._server._forkserver_pid  # noqa: SLF001 - no other way is offered
            return [] if adopter is None or self.pid is None else kill_orphans(adopter, self.pid)

    def begin(self) -> None:
        """Start the server, if it does not run yet, and let it import while this process goes on."""
        with self._lock:
            self._ensure_running()

    def warm_up(self) -> None:
        """Start the server, if it does not run yet, and wait until its imports are done."""
        launched = self.start(_nothing, (), "warm-up")
        launched.wait()

    def _ensure_running(self) -> None:
        if self._log is None:
            directory = make_scratch("forkserver")
            self._log = directory / "log"
            # Where multiprocess puts its sockets; its own choice would outlive a killed parent.
            multiprocess.process.current_process()._config.setdefault("tempdir", str(directory))  # noqa: SLF001
            # It ends when it reads the end of a pipe, unless it is busy with an import or somebody else has the other
            # end. So the warden knows it and all that is forked from it, before there is anything to know.
            warden.watch_forkserver(self._mark)
            orphans.adopt(self.end_orphans)
        modules = [*self.preload, *asked_for(bare="tensorflow" not in self.preload)]
        told = {
            "LOCKSTEP_PRELOAD": " ".join(modules),
            "LOCKSTEP_FORKSERVER_LOG": str(self._log),
            FORKSERVER_VARIABLE: self._mark,
            # Python tries whether it can write there, and would leave that file if it was killed meanwhile.
            "TMPDIR": str(self._log.parent),
            "LOCKSTEP_TMPDIR": os.environ.get("TMPDIR", ""),
            **self._variables,
        }
        with changed_environment({**told, **children.child_environment()}):
            self._server.ensure_running()


def _nothing() -> None:
    """The body of a warm-up process."""


def at_import(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Those variables of a task's environment that have to be there when its forkserver imports TensorFlow."""
    return tuple((name, environ[name]) for name in _AT_IMPORT if environ.get(name))


def forkserver(preload: tuple[str, ...] = DEFAULT_PRELOAD, variables: tuple[tuple[str, str], ...] = ()) -> Forkserver:
    """This process's forkserver for these modules and variables, started on first use.

    Modules that are not installed are left out.
    """
    return _forkserver(preload, variables)  # a cache tells arguments that are left out from those that are given


@cache
def _forkserver(preload: tuple[str, ...], variables: tuple[tuple[str, str], ...]) -> Forkserver:
    return Forkserver([name for name in preload if importlib.util.find_spec(name) is not None], variables)


def fork(entry: EntryPoint, name: str) -> ForkedProcess:
    """Start a process called `name` that begins so."""
    return forkserver(entry.preload, entry.variables).start(entry.target, entry.args, name)
