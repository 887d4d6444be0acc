"""Starts a command on a machine of the lab and joins its standard streams, over the machine's cable; as `ssh` does."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import sys
from pathlib import Path

from simulator import kernel
from tests.simulator.lab.keeper import PORT, address


def enter(keeper: int) -> None:
    """Enter the hub's network."""
    for kind, flag in (("user", kernel.NEW_USER), ("net", kernel.NEW_NETWORK)):
        space = os.open(f"/proc/{keeper}/ns/{kind}", os.O_RDONLY)
        kernel.set_namespace(space, flag)
        os.close(space)


def main(keeper: int, number: int, argv: list[str]) -> None:
    """Enter the hub's network, connect, and carry bytes until either side has no more."""
    enter(keeper)
    with socket.create_connection((address(number), PORT), 10.0) as wire:
        wire.settimeout(None)
        wire.sendall(json.dumps({"argv": argv, "cwd": str(Path.cwd())}).encode() + b"\n")
        _carry(wire)


def _carry(wire: socket.socket) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wire, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj == 0:
                    if data := os.read(0, 1 << 16):
                        wire.sendall(data)
                    else:
                        selector.unregister(0)
                        with contextlib.suppress(OSError):
                            wire.shutdown(socket.SHUT_WR)
                elif data := wire.recv(1 << 16):
                    rest = memoryview(data)
                    while rest:
                        rest = rest[os.write(1, rest) :]
                else:
                    return


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2].removeprefix("m")), sys.argv[3:])
