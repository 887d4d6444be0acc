"""Parents that are killed: each function starts what a parent may have and returns when that is there."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from simulator import Cluster, Topology
from simulator.launch import Forkserver
from tests.simulator._wire import eventually

# Its daemon has its own session, an empty environment, and what the program had open.
_ESCAPED = 'setsid env -i sh -c "echo \\$\\$ > {escaped}.new; mv {escaped}.new {escaped}; exec sleep 600" & wait'


def _daemon(stack: ExitStack, folder: Path) -> None:
    cluster = stack.enter_context(Cluster(Topology(worker=2), preload=(), relay=True))
    program = _ESCAPED.format(escaped=folder / "escaped-$LOCKSTEP_TASK")
    stack.enter_context(cluster.start_command(["sh", "-c", program]))
    eventually(lambda: len(list(folder.glob("escaped-*[0-9]"))) == 2, "the daemons")


def _child(stack: ExitStack, folder: Path) -> None:
    cluster = stack.enter_context(Cluster(Topology(worker=2), preload=(), relay=True))
    stack.enter_context(cluster.start(threading.Event().wait))
    # It has all that its parent has open, and closes nothing.
    if not (child := os.fork()):
        while True:
            signal.pause()
    (folder / "escaped-child").write_text(str(child))


def _import(stack: ExitStack, folder: Path) -> None:
    there = folder / "there"
    (folder / "endless.py").write_text(f"import pathlib, signal\npathlib.Path({str(there)!r}).touch()\nsignal.pause()")
    sys.path.insert(0, str(folder))
    threading.Thread(target=Forkserver(["endless"]).warm_up, daemon=True).start()
    eventually(there.exists, "the import to begin")


WAYS: dict[str, Callable[[ExitStack, Path], None]] = {"daemon": _daemon, "child": _child, "import": _import}
"""What keeps a forkserver from hearing of its parent's end, by name."""


def _forked() -> Iterator[tuple[int, float]]:
    """The forkservers of this process and what was forked from them: process id, and time of its start."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any("multiprocess.forkserver" in word for word in process.cmdline()):
                yield process.pid, process.create_time()


@contextmanager
def _printed_and_killed() -> Iterator[None]:
    yield
    sys.stdout.write(json.dumps(list(_forked())))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    with ExitStack() as all_of_it, _printed_and_killed():
        WAYS[sys.argv[1]](all_of_it, Path(sys.argv[2]))
