"""Several machines on one: each has its own network, processes, host name, /tmp, /dev/shm, and a clock of its own.

A process that owns the user namespace of all of them, and a hub between their cables. On each machine a door listens,
as sshd does: it starts what it is told to, with the connection for its standard streams.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from pathlib import Path

from pyroute2 import IPRoute

from simulator import kernel

NEW_IPC, NEW_TIME = 0x08000000, 0x00000080
HUB, PORT = "198.18.1.1", 22
# Of each machine alone. What this one has mounted below the last two could not be covered by a view of a machine: the
# kernel has no overlay in a user namespace of what holds mounts from outside.
OWN = ("/tmp", "/dev/shm", "/mnt", "/media")
CLOCK_SECONDS = 1000
_MEMORY_BYTES = 2**28


def address(number: int) -> str:
    """Of a machine."""
    return f"198.18.1.{10 + number}"


def main(count: int, shared: list[str]) -> None:
    """Make the lab, say `ready`, and obey lines: `cut N`, `mend N`, `off N`."""
    user, group = os.getuid(), os.getgid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_NETWORK)
    kernel.map_user(0, user, 0, group)
    links = IPRoute()
    links.link("set", index=links.link_lookup(ifname="lo")[0], state="up")
    links.link("add", ifname="hub", kind="bridge")
    hub = links.link_lookup(ifname="hub")[0]
    links.addr("add", index=hub, address=HUB, prefixlen=24)
    links.link("set", index=hub, state="up")
    machines = [_machine(links, hub, number, shared) for number in range(count)]
    _say("ready")
    for line in sys.stdin:
        word, number = line.split()
        port = links.link_lookup(ifname=f"port{number}")
        if word == "off":
            with contextlib.suppress(ProcessLookupError):
                os.kill(machines[int(number)], signal.SIGKILL)
        else:
            links.link("set", index=port[0], state="down" if word == "cut" else "up")
        _say("done")
    for pid in machines:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _machine(links: IPRoute, hub: int, number: int, shared: list[str]) -> int:
    """Start one; the process whose end is the end of it all, as seen from here."""
    tells, told = os.pipe(), os.pipe()
    between = os.fork()
    if not between:
        kernel.die_with_parent()
        kernel.unshare(
            kernel.NEW_NETWORK | kernel.NEW_MOUNTS | kernel.NEW_UTS | NEW_IPC | kernel.NEW_PROCESSES | NEW_TIME
        )
        offset = CLOCK_SECONDS * (number + 1)
        Path("/proc/self/timens_offsets").write_text(f"monotonic {offset} 0\nboottime {offset} 0\n")
        first = os.fork()
        if not first:
            kernel.die_with_parent()
            _be(number, tells[1], told[0], shared)
        os.write(tells[1], b"%d\n" % first)
        os.waitpid(first, 0)
        os._exit(0)
    first = int(os.read(tells[0], 20))
    links.link("add", ifname=f"port{number}", kind="veth", peer={"ifname": "cable", "net_ns_pid": first})
    port = links.link_lookup(ifname=f"port{number}")[0]
    links.link("set", index=port, master=hub, state="up")
    os.write(told[1], b"!")
    assert os.read(tells[0], 20) == b"up\n"
    return first


def _be(number: int, tells: int, told: int, shared: list[str]) -> None:
    """The first process of a machine."""
    socket.sethostname(f"m{number}")
    kernel.keep_mounts_private()
    kernel.mount_proc()
    kept = [(place, os.open(place, os.O_RDONLY)) for place in shared]
    for place in filter(os.path.isdir, OWN):
        kernel.mount_memory(place, _MEMORY_BYTES)
    for place, seen in kept:
        Path(place).mkdir(parents=True, exist_ok=True)
        kernel.bind_tree(f"/proc/self/fd/{seen}", place)
    os.read(told, 1)
    links = IPRoute()
    for name in ("lo", "cable"):
        index = links.link_lookup(ifname=name)[0]
        if name == "cable":
            links.addr("add", index=index, address=address(number), prefixlen=24)
        links.link("set", index=index, state="up")
    door = socket.create_server((address(number), PORT), backlog=16)
    os.write(tells, b"up\n")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever has lost its parent is this process's child
    while True:
        visitor, _ = door.accept()
        if not os.fork():
            door.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _start(visitor)
        visitor.close()


def _start(visitor: socket.socket) -> None:
    """Become what the first line asks for."""
    line = b""
    while not line.endswith(b"\n"):
        line += visitor.recv(1)
    asked = json.loads(line)
    os.setsid()
    for number in (0, 1):
        os.dup2(visitor.fileno(), number)
    os.chdir(asked["cwd"])
    os.execvpe(asked["argv"][0], asked["argv"], {**os.environ, "MACHINE": socket.gethostname()})


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
