"""Clusters whose tasks stay up and are talked to: one line of text to a task, one line back."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Callable, Iterator
from typing import Any

from simulator import Cluster, Topology
from simulator.agent import current
from simulator.machines.local.scratch import scratch
from simulator.run.run import Run

# No run of tests keeps a cluster for longer.
_LIFE_SECONDS = 1800.0
_START_SECONDS = 60.0


class Talk:
    """The parent's side: a socket and a file for each client task, and the run that the tasks belong to."""

    def __init__(self, run: Run, sockets: dict[str, socket.socket], files: dict[str, io.BufferedRWPair]) -> None:
        self.run = run
        self.sockets = sockets
        self.files = files
        self.spoilt = False

    def tell(self, task: str, line: bytes) -> None:
        """Send one line."""
        self.files[task].write(line + b"\n")
        self.files[task].flush()

    def hear(self, task: str) -> str:
        """Wait for one line."""
        return self.files[task].readline().decode().strip()


@contextlib.contextmanager
def talking(topology: Topology, function: Callable[..., Any], *args: Any) -> Iterator[Talk]:
    """Call `function(address, *args)` in every client task; it answers through `connected(address)`.

    A function returns when its connection is closed. Where `spoilt` has been set, its tasks are killed instead.
    """
    with scratch("talk") as directory, contextlib.ExitStack() as stack:
        address = str(directory / "socket")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(address)
        listener.listen(len(topology.clients))
        listener.settimeout(_START_SECONDS)
        cluster = stack.enter_context(Cluster(topology, timeout=_LIFE_SECONDS))
        run = stack.enter_context(cluster.start(function, address, *args))
        talk = Talk(run, {}, {})
        try:
            for _ in topology.clients:
                connection, _ = listener.accept()
                connection.settimeout(_START_SECONDS)
                file = connection.makefile("rwb")
                task = file.readline().decode().strip()
                talk.sockets[task], talk.files[task] = connection, file
            yield talk
        except BaseException:
            talk.spoilt = True
            raise
        finally:
            for task, file in talk.files.items():
                with contextlib.suppress(OSError):
                    file.close()
                talk.sockets[task].close()
        if not talk.spoilt:
            run.join()


@contextlib.contextmanager
def connected(address: str) -> Iterator[io.BufferedRWPair]:
    """A task's side: a file whose lines are what the parent tells, until it hangs up."""
    task = current()
    assert task is not None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        with connection.makefile("rwb") as file:
            file.write(f"{task.spec.task}\n".encode())
            file.flush()
            yield file
