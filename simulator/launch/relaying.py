"""How a relay becomes a process on the machine of its tasks, and how a round trip through it is tried there."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.helpers.doorkeeper import Descriptor
from simulator.helpers.relay.door import request
from simulator.launch.forkserver import ForkedProcess, forkserver
from simulator.machines.local.warden import warden
from simulator.wire import network as wire

_END_SECONDS_MAX = 5.0
# How often a probe that waits asks whether anybody still wants to know.
_ASK_SECONDS = 0.1
_BACKLOG = 128
_PRELOAD = ("simulator.helpers.relay.relay",)


class LinkRefused(LockstepError):
    """Raised when a probe's connection was refused or reset."""


def fork_relay(control: socket.socket, passed: Iterable[int]) -> ForkedProcess:
    """Fork the relay, from a process that has imported what it needs and nothing else: that takes milliseconds.

    Started with an interpreter of its own it would take 0.1 s, which every run of several tasks would have to pay.

    Args:
        control: the relay's end of the connection by which it is told what to do.
        passed: descriptors that the messages name by their numbers here.
    """
    numbers = {number: Descriptor(number) for number in passed}
    launched = forkserver(_PRELOAD).start(_relay_process, (Descriptor(control.fileno()), numbers), "relay")
    # Not PR_SET_PDEATHSIG, which also strikes when only the thread that started the relay ends. The control socket
    # closes with this process, and the warden is there if the relay should not notice.
    warden.watch_group(launched.pid)
    return launched


def _relay_process(control: Descriptor, passed: Mapping[int, Descriptor]) -> None:
    """What the forked process does: a session of its own, then the relay."""
    from simulator.helpers.relay.relay import main

    os.setsid()
    main(control.number, {number: here.number for number, here in passed.items()})


def end_relay(process: ForkedProcess) -> None:
    """Wait for the end of a relay that has been told to, for certain."""
    process.end(_END_SECONDS_MAX)
    warden.forget_group(process.pid)


def listen(address: str = "127.0.0.1") -> socket.socket:
    """A socket that listens for requests to the relay, of this machine's tasks, or at another address of it."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind((address, 0))
    listener.listen(_BACKLOG)
    return listener


def port_of(listener: socket.socket) -> int:
    """Its port."""
    return int(listener.getsockname()[1])


def probe(
    port: int,
    key: str,
    src: str,
    dst: str,
    timeout: float,
    given_up: Callable[[], bool] = lambda: False,
    steady: bool = False,
) -> float:
    """Round trip of one byte from `src` to the far end of the relay and back, in seconds, uncounted.

    Args:
        port: of this task's listener of the relay.
        key: that the relay asks for.
        src: the task.
        dst: the task to which it goes.
        timeout: seconds for the answer.
        given_up: asked meanwhile; whether nobody wants the answer any more.
        steady: leave out jitter and rate of the links.

    Raises:
        DeadlineExceeded: no answer within `timeout` seconds, or it was given up.
        LinkRefused: the connection was refused or reset.
    """
    deadline = time.monotonic() + timeout
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.sendall(request(f"{wire.STEADY_PROBE_HOST if steady else wire.PROBE_HOST}/{dst}", key))
            if b" 200 " not in _receive(line, deadline, given_up):
                raise LinkRefused(f"a connection from {src} to {dst} is refused")
            began = time.monotonic()
            line.sendall(b"?")
            if not _receive(line, deadline, given_up):
                raise LinkRefused(f"a connection from {src} to {dst} is closed")
            return time.monotonic() - began
    except TimeoutError:
        raise DeadlineExceeded(f"a round trip from {src} to {dst}", timeout) from None
    except OSError as error:
        raise LinkRefused(f"a connection from {src} to {dst} is reset ({error})") from None


def _receive(connection: socket.socket, deadline: float, given_up: Callable[[], bool]) -> bytes:
    while not given_up():
        if (seconds := deadline - time.monotonic()) <= 0:
            break
        connection.settimeout(min(seconds, _ASK_SECONDS))
        with contextlib.suppress(TimeoutError):
            return connection.recv(4096)
    raise TimeoutError
