"""Hold a task at each system call that changes a file, so that it can be killed between any two of them.

A save is a sequence of system calls. A killed process leaves on disk what the calls before its end have done, so the
points between calls are all the phases that a save has, inside of TensorFlow's C++ ops too. The kernel reports the
calls (`seccomp_unotify(2)`, Linux on x86-64 and arm64, no privileges needed); the caller waits until it is answered.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
# Name, number, and which argument is the path (or, for calls on an open file, the descriptor). For a rename it is the
# new name that counts.
_CALLS: dict[str, dict[str, tuple[int, int, str]]] = {
    "x86_64": {
        "open": (2, 0, "path"), "openat": (257, 1, "path"), "creat": (85, 0, "path"),
        "mkdir": (83, 0, "path"), "mkdirat": (258, 1, "path"),
        "rename": (82, 1, "path"), "renameat": (264, 3, "path"), "renameat2": (316, 3, "path"),
        "unlink": (87, 0, "path"), "unlinkat": (263, 1, "path"), "rmdir": (84, 0, "path"),
        "truncate": (76, 0, "path"), "ftruncate": (77, 0, "file"),
        "write": (1, 0, "file"), "pwrite64": (18, 0, "file"), "writev": (20, 0, "file"), "pwritev": (296, 0, "file"),
        "sendfile": (40, 0, "file"), "copy_file_range": (326, 2, "file"),
    },
    "aarch64": {
        "openat": (56, 1, "path"), "mkdirat": (34, 1, "path"),
        "renameat": (38, 3, "path"), "renameat2": (276, 3, "path"), "unlinkat": (35, 1, "path"),
        "truncate": (45, 0, "path"), "ftruncate": (46, 0, "file"),
        "write": (64, 0, "file"), "pwrite64": (68, 0, "file"), "writev": (66, 0, "file"), "pwritev": (70, 0, "file"),
        "sendfile": (71, 0, "file"), "copy_file_range": (285, 2, "file"),
    },
}  # fmt: skip
# Calls that only read pass unseen: `open` counts if it creates, truncates or appends.
_OPEN_FLAGS = {"open": 1, "openat": 2}
_WRITING = os.O_CREAT | os.O_TRUNC | os.O_APPEND
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_NEW_LISTENER, _ALL_THREADS, _ALL_THREADS_ESRCH = 8, 1, 16


@dataclass(frozen=True)
class FileCall:
    """One call that is about to change something below the watched directory.

    Attributes:
        name: the system call, for example `rename`.
        path: the file, relative to the watched directory.
    """

    name: str
    path: str

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


def why_not() -> str:
    """Why this machine cannot hold a task at its file calls; empty when it can."""
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in _CALLS:
        return f"holding a task at its file calls needs Linux on x86-64 or arm64; this is {sys.platform} on {machine}"
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if not actions.exists() or "user_notif" not in actions.read_text().split():
        return "holding a task at its file calls needs seccomp user notification (Linux 5.7 or later)"
    return ""


# -- in the task


def hold_me(address: Path) -> None:
    """From now on every thread of this process waits at each file call until `held` in the parent lets it go on.

    Raises:
        OSError: the kernel refuses the filter.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(address))
        listener = _install(_program())
        socket.send_fds(connection, [str(os.getpid()).encode()], [listener])
        os.close(listener)
        if not connection.recv(1):
            raise OSError(errno.EPIPE, "nobody watches the file calls")


def _install(program: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("=H6xQ", len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS, which allows a filter without privileges
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    flags = _NEW_LISTENER | _ALL_THREADS | _ALL_THREADS_ESRCH
    listener: int = libc.syscall(_SECCOMP[platform.machine()], 1, flags, header)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp(SECCOMP_SET_MODE_FILTER)")
    return listener


def _program() -> bytes:
    """Classic BPF: notify about the calls of the table (an `open` only if it writes), allow all others."""
    machine = platform.machine()
    load, jump_equal, jump_set, give = 0x20, 0x15, 0x45, 0x06
    allow, notify = 0x7FFF0000, 0x7FC00000

    def instruction(code: int, k: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("=HBBI", code, yes, no, k)

    lines = [
        instruction(load, 4),
        instruction(jump_equal, _AUDIT_ARCH[machine], 1, 0),
        instruction(give, allow),
        instruction(load, 0),
    ]
    for name, (number, _, _) in _CALLS[machine].items():
        if name in _OPEN_FLAGS:
            lines += [
                instruction(jump_equal, number, 0, 4),
                instruction(load, 16 + 8 * _OPEN_FLAGS[name]),
                instruction(jump_set, _WRITING, 0, 1),
                instruction(give, notify),
                instruction(give, allow),
            ]
        else:
            lines += [instruction(jump_equal, number, 0, 1), instruction(give, notify)]
    return b"".join([*lines, instruction(give, allow)])


# -- in the parent


@contextlib.contextmanager
def held(root: Path, address: Path, on_call: Callable[[int, FileCall], bool]) -> Iterator[None]:
    """While the context is open, answer the file calls of the one process that connects to `address`.

    Args:
        root: calls on files below this directory are passed to `on_call`; all others go on at once.
        address: path of the Unix socket to listen on.
        on_call: gets the call's number, from 0, and the call, which has not been carried out yet. When it returns false
            the call never happens: the process is killed where it stands.
    """
    problems: list[BaseException] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(address))
        server.listen(1)
        thread = threading.Thread(target=_serve, args=(server, root.resolve(), on_call, problems), daemon=True)
        thread.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join(timeout=30)
            address.unlink()
    if problems:
        raise problems[0]
    assert not thread.is_alive()


def _serve(
    server: socket.socket, root: Path, on_call: Callable[[int, FileCall], bool], problems: list[BaseException]
) -> None:
    try:
        connection, _ = server.accept()
    except OSError:
        return  # the context was left before anyone connected
    listener = -1
    try:
        with connection:
            message, (listener, *_), _, _ = socket.recv_fds(connection, 32, 1)
            connection.sendall(b"+")
        _answer(int(message), listener, root, on_call)
    except BaseException as error:  # noqa: BLE001 - reported by `held`
        problems.append(error)
    finally:
        if listener >= 0:
            os.close(listener)


def _answer(pid: int, listener: int, root: Path, on_call: Callable[[int, FileCall], bool]) -> None:
    names = {number: (name, place, kind) for name, (number, place, kind) in _CALLS[platform.machine()].items()}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    count = 0
    while True:
        ((_, event),) = poll.poll()
        if not event & select.POLLIN:
            return  # the process has ended
        notification = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, notification)
        except FileNotFoundError:
            continue  # the caller was killed meanwhile
        number, _, _, call, _, _, *arguments = _NOTIFICATION.unpack(notification)
        name, place, kind = names[call]
        path = _path(pid, arguments, place, kind)
        if path is not None and path.is_relative_to(root) and path != root:
            goes_on = on_call(count, FileCall(name, str(path.relative_to(root))))
            count += 1
            if not goes_on:
                os.kill(pid, 9)
                continue
        with contextlib.suppress(FileNotFoundError):
            fcntl.ioctl(listener, _SEND, _RESPONSE.pack(number, 0, 0, _CONTINUE))


def _path(pid: int, arguments: list[int], place: int, kind: str) -> Path | None:
    try:
        if kind == "file":
            return Path(f"/proc/{pid}/fd/{arguments[place]}").readlink()
        path = _text(pid, arguments[place])
        if not path.is_absolute():
            base = ctypes.c_int32(arguments[place - 1] & 0xFFFFFFFF).value if place in {1, 3} else -100
            path = Path(f"/proc/{pid}/cwd" if base == -100 else f"/proc/{pid}/fd/{base}").readlink() / path
        return path.parent.resolve() / path.name
    except OSError:
        return None


def _text(pid: int, address: int) -> Path:
    """The zero-terminated path at this address of the process, read up to the end of its page, then the next one."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(address)
        found = memory.read(4096 - address % 4096)
        if b"\0" not in found:
            found += memory.read(4096)
    return Path(os.fsdecode(found.partition(b"\0")[0]))
