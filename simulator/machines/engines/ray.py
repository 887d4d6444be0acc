"""Machines that are nodes of a Ray cluster which is there already: a process of ours leads to all of them."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from _lockstep.children import child_command
from simulator.errors import UsageError
from simulator.machines.engines.sites import MOST, Sites, names_of
from simulator.machines.far.checks import MachinesUnavailable
from simulator.machines.far.wire import SiteStream, SocketWire
from simulator.wire.ray import Joined, SitesWanted

_JOIN_SECONDS_MAX = 60.0
_END_SECONDS_MAX = 10.0
_SAID_CHARACTERS_MAX = 600
_FORM = "write how many nodes, or which: --machines ray:2, --machines ray:10.0.0.5,10.0.0.6"
_ADDRESS = "RAY_ADDRESS"


@dataclass(kw_only=True)
class RayNodes(Sites):
    """An engine: a site on each of some nodes.

    Attributes:
        anywhere: any nodes will do, and `names` are numbered; else `names` are theirs.
        address: of the cluster, as `RAY_ADDRESS` has it; empty for the one that runs on this machine.
    """

    anywhere: bool
    address: str = ""

    @staticmethod
    def meant(text: str) -> bool:
        """Whether this asks for nodes of a Ray cluster."""
        return text.partition(":")[0] == "ray"

    @classmethod
    def parse(cls, text: str, **options: Any) -> RayNodes:
        """What `ray:COUNT` or `ray:NODE,NODE` asks for, checked before anything starts; `options` are of `Sites`.

        Raises:
            UsageError: it is not of that form, or Ray is not there.
        """
        listed = text.partition(":")[2]
        if not listed:
            raise UsageError(f"--machines {text!r} is not understood; {_FORM}")
        anywhere = listed.isdecimal()
        if anywhere and not 1 <= int(listed[:9]) <= MOST:
            raise UsageError(f"--machines {text}: from 1 to {MOST} nodes can be had")
        names = tuple(f"ray-{number}" for number in range(int(listed))) if anywhere else names_of(listed, _FORM)
        address = os.environ.get(_ADDRESS, "")
        if "://" in address or address == "local":
            raise UsageError(
                f"{_ADDRESS}={address} is not the address of a cluster, of which this machine has to be a node; give "
                f"HOST:PORT, or leave {_ADDRESS} out for the cluster that runs here"
            )
        if importlib.util.find_spec("ray") is None:
            raise UsageError(f"--machines {text} needs Ray, which is not installed: pip install 'tf-lockstep[ray]'")
        return cls(names=names, anywhere=anywhere, address=address, **options)

    @property
    def key(self) -> tuple[object, ...]:
        """As of `Sites`."""
        return (*super().key, self.address)

    def _reach(
        self, directory: Path, site: Sequence[str], stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, SiteStream]]:
        with contextlib.ExitStack() as handed:
            control, far = socket.socketpair()
            stack.enter_context(control)
            streams = [socket.socketpair() for _ in self.names]
            theirs = [handed.enter_context(each) for each in (far, *(theirs for _, theirs in streams))]
            ours = [stack.enter_context(ours) for ours, _ in streams]
            numbers = [each.fileno() for each in theirs]
            wanted = SitesWanted(self.names, self.anywhere, tuple(numbers[1:]), numbers[0], tuple(site), str(directory))
            said = directory / "ray.stderr"
            with said.open("ab") as file:
                process = subprocess.Popen(
                    child_command("simulator.helpers.ray.driver", msgspec.json.encode(wanted).decode()),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    pass_fds=numbers,
                    # Ctrl-C is for the run, which then ends its tasks in order.
                    start_new_session=True,
                )
            stack.callback(_ended, process, control)
        _joined(control, said)
        for name, near in zip(self.names, ours, strict=True):
            yield name, SocketWire(near, directory / f"{name}.why")


def _joined(control: socket.socket, said: Path) -> None:
    """Wait until the driver has found the nodes.

    Raises:
        MachinesUnavailable: it has not.
    """
    control.settimeout(_JOIN_SECONDS_MAX)
    try:
        with control.makefile("rb") as lines:
            line = lines.readline()
    except TimeoutError as error:
        last = said.read_text(errors="replace").strip()[-_SAID_CHARACTERS_MAX:]
        raise MachinesUnavailable(f"Ray has not answered within {_JOIN_SECONDS_MAX:g} s; {last}") from error
    told = (
        msgspec.json.decode(line, type=Joined)
        if line
        else Joined(said.read_text(errors="replace").strip()[-_SAID_CHARACTERS_MAX:])
    )
    if told.refused or not line:
        raise MachinesUnavailable(f"nodes of Ray cannot be had: {told.refused[:_SAID_CHARACTERS_MAX]}")


def _ended(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Have the driver end, for which it has a while; its actors end with it, whoever ends it."""
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
