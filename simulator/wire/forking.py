"""Asks a forkserver for a process: how its parent does it, and how a process does that came from it."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import socket
import struct
import threading
from typing import Any

from multiprocess import connection, context, popen_forkserver, reduction, spawn, util
from multiprocess import forkserver as mp_forkserver

# The exit code as `multiprocess` writes it, and seconds of CLOCK_MONOTONIC.
STAMPED = struct.Struct("qd")


_NUMBER_SECONDS_MAX = 10.0
# As `multiprocess` has it.
_UNKNOWN_END = 255
_read_number = mp_forkserver.read_signed


class Popen(popen_forkserver.Popen):  # type: ignore[misc]  # multiprocess has no type hints
    """`multiprocess`'s own launch, through a given server and without the caller's `__main__`.

    Args:
        process: a process of `multiprocess` that has not been started.
        server: which forks it.
    """

    returncode: int | None

    def __init__(self, process: Any, server: Server) -> None:
        self._server = server
        self._reading = threading.Lock()
        self.ended_at: float | None = None
        # Whether it has ended, and how cannot be known: who had to say so was killed.
        self.lost = False
        super().__init__(process)

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        """As `multiprocess` has it, and when the end was seen."""
        seconds = 0 if flag == os.WNOHANG else None
        # Not `select.select`, which raises where a process has more than 1024 files open.
        if self.returncode is None and connection.wait([self.sentinel], seconds):
            with self._reading:
                if self.returncode is None:  # else another thread has read it, and nothing follows
                    self._read_end()
        return self.returncode

    def _read_end(self) -> None:
        said = os.read(self.sentinel, STAMPED.size)  # written whole; nothing if the forkserver itself was killed
        self.lost = len(said) != STAMPED.size
        code, self.ended_at = (_UNKNOWN_END, None) if self.lost else STAMPED.unpack(said)
        self.returncode = code

    def _launch(self, process_obj: Any) -> None:
        preparation = spawn.get_preparation_data(process_obj.name)
        for key in ("init_main_from_name", "init_main_from_path"):
            preparation.pop(key, None)
        buffer = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            context.reduction.dump(preparation, buffer)
            context.reduction.dump(process_obj, buffer)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, write_end = self._server.connect_to_new_process(self._fds)
        self.finalizer = util.Finalize(self, util.close_fds, (os.dup(write_end), self.sentinel))
        try:
            with os.fdopen(write_end, "wb") as pipe:
                pipe.write(buffer.getbuffer())
            self.pid = mp_forkserver.read_signed(self.sentinel)
        except BaseException:
            self._end_unnamed()
            raise

    def _end_unnamed(self) -> None:
        """End a process that may have been forked, and whose number nobody has got."""
        with contextlib.suppress(OSError, EOFError):
            if connection.wait([self.sentinel], _NUMBER_SECONDS_MAX):
                os.kill(_read_number(self.sentinel), signal.SIGKILL)
        self.finalizer()


class Server:
    """A forkserver that runs, and is not started again when it has ended: whoever asks is refused then.

    Args:
        address: where it listens.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    @classmethod
    def own(cls) -> Server:
        """The one that this process came from, whose imports its next processes then have as well.

        Raises:
            RuntimeError: this process came from none.
        """
        # A forkserver of `multiprocess` notes its address where its processes inherit it.
        address = mp_forkserver._forkserver._forkserver_address  # noqa: SLF001 - no other way is offered
        if address is None:
            raise RuntimeError("this process was not forked by a forkserver")
        return cls(address)

    def connect_to_new_process(self, fds: list[int]) -> tuple[int, int]:
        """Have a process forked.

        Args:
            fds: that it inherits.

        Returns:
            Where its number and its exit code can be read, and where what it shall do is written.
        """
        with contextlib.ExitStack() as stack, socket.socket(socket.AF_UNIX) as client:
            client.connect(self._address)
            status, its_status = os.pipe()
            its_data, data = os.pipe()
            # In the place of what would keep the server alive, which the new process closes at once.
            nothing = os.open(os.devnull, os.O_RDONLY)
            for each in (its_status, its_data, nothing):
                stack.callback(os.close, each)
            try:
                reduction.sendfds(client, [its_data, its_status, nothing, nothing, *fds])
            except BaseException:
                os.close(status)
                os.close(data)
                raise
            return status, data
