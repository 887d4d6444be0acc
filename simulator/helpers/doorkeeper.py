"""How a fresh process gets into the host of a task: namespaces for users, network, host name, mounts and processes.

The process that the forkserver has forked stays outside as the doorkeeper. It enters the namespaces, forks the first
process of a new process namespace, which takes in orphans, and then the task itself. When the task has ended it ends
that first process, with which the kernel kills everything else inside, and ends in the same way as the task. So when
the doorkeeper has gone, nothing of the task is left, not even what has left its process group.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from multiprocess import reduction
from multiprocess.connection import Connection

from simulator import kernel

# What a doorkeeper says before it gives up instead of a process id.
_FAILED = -1


class Descriptor:
    """A file descriptor that travels to a forked process; there its number may be another."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Callable[[Any], Descriptor], tuple[Any]]:
        return _arrived, (reduction.DupFd(self.number),)


def _arrived(duplicate: Any) -> Descriptor:
    return Descriptor(duplicate.detach())


@dataclass(frozen=True)
class HostDoor:
    """What a process needs to get into a host.

    Attributes:
        name: the host's name.
        user: the user namespace that owns the host.
        network: its network namespace.
        names: a file in the form of `/etc/hosts`, which it sees there.
    """

    name: str
    user: Descriptor
    network: Descriptor
    names: str


def begin(door: HostDoor, told: Connection, target: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Call `target(*args)` in a process inside the host. Returns inside; the doorkeeper never returns.

    Args:
        door: the host.
        told: gets the process id of the task as seen from outside, or `-1` and why it could not be started.
        target: called inside.
        args: its arguments.
    """
    try:
        task, first = _enter(door)
    except OSError as error:
        told.send((_FAILED, str(error)))
        os._exit(1)
    if task:
        told.send((task, ""))
        told.close()
        _keep_door(task, first)
    told.close()
    target(*args)


def _enter(door: HostDoor) -> tuple[int, int]:
    """Fork the task inside; its process id and that of the first process there, `0` and `0` in the task itself."""
    user, group = os.getuid(), os.getgid()
    os.setsid()
    kernel.set_namespace(door.user.number, kernel.NEW_USER)
    kernel.set_namespace(door.network.number, kernel.NEW_NETWORK)
    # Changing the user namespace would clear it.
    kernel.die_with_parent()
    kernel.unshare(kernel.NEW_UTS | kernel.NEW_MOUNTS | kernel.NEW_PROCESSES)
    socket.sethostname(door.name)
    kernel.keep_mounts_private()
    kernel.bind_file(door.names, "/etc/hosts")
    first = _start_first()
    task = os.fork()
    if task:
        return task, first
    # Without the rights over the host that its owner has, and as the same user as outside.
    kernel.unshare(kernel.NEW_USER)
    kernel.map_user(user, 0, group, 0)
    for descriptor in (door.user, door.network):
        os.close(descriptor.number)
    return 0, 0


def _start_first() -> int:
    """Start process 1 of the new process namespace and wait until `/proc` shows that namespace."""
    read, write = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(read)
        _be_first(write)
    os.close(write)
    os.read(read, 1)
    os.close(read)
    return first


def _be_first(ready: int) -> NoReturn:
    kernel.die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Where parts of /proc are hidden, as in many containers, the kernel refuses; the task then sees the outer /proc.
    with contextlib.suppress(OSError):
        kernel.mount_proc()
    os.close(ready)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigwait({signal.SIGCHLD})


def _keep_door(task: int, first: int) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(task, 0)
    os.kill(first, signal.SIGKILL)
    # Returns when the whole process namespace is gone.
    os.waitpid(first, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.stderr.flush()
    os._exit(code)
