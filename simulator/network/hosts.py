"""The parent's side of the hosts: has the keeper make them, and holds the way into each."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.helpers.doorkeeper import Descriptor, HostDoor
from simulator.launch import ForkedProcess, forkserver
from simulator.machines.local.ports import hold_ports
from simulator.machines.local.warden import warden
from simulator.network.helper import Helper, NetworkEnded
from simulator.topology import Topology
from simulator.wire.hosts import ECHO_PORT, Host, plan_hosts, table_of_names

_START_SECONDS_MAX = 20.0
_END_SECONDS_MAX = 5.0
_AGAIN_SECONDS = 0.2
# It imports pyroute2, which therefore is not named: this process would import that to find its parts.
_PRELOAD = ("simulator.helpers.hosts.keeper",)


class HostsUnavailable(LockstepError):
    """Raised when this machine cannot give each task a host of its own; the message says why."""


class KeeperEnded(NetworkEnded):
    """Raised when the keeper of the hosts is asked for something and is not there any more."""


@dataclass(frozen=True)
class _Inside:
    """What the parent holds of one host."""

    network: int
    listener: socket.socket
    prober: socket.socket
    probing: threading.Lock


class Hosts:
    """A host of its own for each task of a topology, while the context is open: user, network, process, host-name and
    mount namespaces, a loopback interface and an address, and a cable to each other task.

    Args:
        topology: the tasks.
        directory: where the table of host names is written.

    Raises:
        UsageError: there are no hosts for such a topology.
    """

    def __init__(self, topology: Topology, directory: Path) -> None:
        self.plan: Mapping[str, Host] = {host.task: host for host in plan_hosts(topology)}
        self._names = directory / "hosts"
        self._process: ForkedProcess | None = None

    def __enter__(self) -> Hosts:
        self._names.write_text(table_of_names(tuple(self.plan.values())))
        self._inside: dict[str, _Inside] = {}
        self._user = -1
        self._helper: Helper | None = None
        self._control, control = socket.socketpair()
        doors, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = _start_keeper(control, far, tuple(self.plan.values()))
            control.close()
            far.close()
            self._take_over(doors)
        except BaseException:
            self._close()
            raise
        finally:
            doors.close()
            control.close()
            far.close()
        return self

    def _take_over(self, doors: socket.socket) -> None:
        doors.settimeout(_START_SECONDS_MAX)
        for task in self.plan:
            try:
                text, given, _, _ = socket.recv_fds(doors, 4096, 4)
            except TimeoutError:
                raise HostsUnavailable(f"the hosts were not there within {_START_SECONDS_MAX:g} s") from None
            if len(given) != 4:
                raise HostsUnavailable(
                    f"no host for {task}: {text.decode(errors='replace') or 'the keeper ended'}; `lockstep doctor` "
                    "says what this machine lacks"
                )
            network, listener, prober, user = given
            if self._user < 0:
                self._user = user
            else:
                os.close(user)
            self._inside[task] = _Inside(
                network, socket.socket(fileno=listener), socket.socket(fileno=prober), threading.Lock()
            )

    def __exit__(self, *raised: object) -> None:
        self._close()

    def _close(self) -> None:
        """End the keeper; the hosts are gone when their tasks are."""
        if self._helper is not None:
            self._helper.dismiss()
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        if self._process is not None:
            self._process.end(_END_SECONDS_MAX)
            warden.forget_group(self._process.pid)
        if self._helper is not None:
            self._helper.close(_END_SECONDS_MAX)
        self._control.close()
        for inside in self._inside.values():
            os.close(inside.network)
            inside.listener.close()
            inside.prober.close()
        self._inside.clear()
        if self._user >= 0:
            os.close(self._user)

    # -- the keeper

    def listen(self, changed: threading.Condition, on_ended: Callable[[], None]) -> Helper:
        """The conversation with the keeper, which changes conditions and counts packets."""
        self._helper = Helper(
            "keeper", self._control, changed, hear=lambda _: None, on_ended=on_ended, error=KeeperEnded
        )
        return self._helper

    @property
    def pid(self) -> int:
        """Process id of the keeper, while the context is open."""
        assert self._process is not None
        return self._process.pid

    # -- ways in

    @property
    def user(self) -> int:
        """Descriptor of the user namespace that owns the hosts."""
        return self._user

    def network(self, task: str) -> int:
        """Descriptor of the network namespace of a task's host."""
        return self._inside[task].network

    def listener(self, task: str) -> socket.socket:
        """A socket that listens on the loopback interface of a task's host."""
        return self._inside[task].listener

    def door(self, task: str) -> HostDoor:
        """What a process needs to get into the host of a task."""
        return HostDoor(
            name=self.plan[task].name,
            user=Descriptor(self._user),
            network=Descriptor(self._inside[task].network),
            names=str(self._names),
        )

    def probe(self, src: str, dst: str, timeout: float, given_up: Callable[[], bool] = lambda: False) -> float:
        """Round trip of a UDP packet from the host of `src` to that of `dst`, in seconds; lost ones are sent again.

        Raises:
            DeadlineExceeded: no answer within `timeout` seconds, or it was given up.
        """
        inside = self._inside[src]
        deadline = time.monotonic() + timeout
        with inside.probing:
            while (now := time.monotonic()) < deadline and not given_up():
                token = uuid.uuid4().bytes
                with contextlib.suppress(OSError):  # a queue that is full
                    inside.prober.sendto(token, (self.plan[dst].address, ECHO_PORT))
                if _comes(inside.prober, token, min(deadline, now + _AGAIN_SECONDS)):
                    return time.monotonic() - now
        raise DeadlineExceeded(f"a round trip from {src} to {dst}", timeout)


def _comes(prober: socket.socket, token: bytes, deadline: float) -> bool:
    """Whether this packet comes back in time; answers to earlier ones are dropped."""
    while (seconds := deadline - time.monotonic()) > 0:
        prober.settimeout(seconds)
        try:
            if prober.recv(512) == token:
                return True
        except OSError:
            continue
    return False


def _start_keeper(control: socket.socket, doors: socket.socket, hosts: tuple[Host, ...]) -> ForkedProcess:
    # Imported by name in the keeper: this process needs no pyroute2.
    arguments = (Descriptor(control.fileno()), Descriptor(doors.fileno()), hosts)
    process = forkserver(_PRELOAD).start(_keep, arguments, "keeper")
    warden.watch_group(process.pid)
    return process


def _keep(control: Descriptor, doors: Descriptor, hosts: tuple[Host, ...]) -> None:
    try:
        from simulator.helpers.hosts.keeper import main
    except ImportError as error:
        with socket.socket(fileno=doors.number) as door:
            door.send(f"{error} (pip install pyroute2)".encode())
        os._exit(1)
    main(control, doors, hosts)


def host_addresses(topology: Topology) -> dict[str, str]:
    """`host:port` of each task with an address, where each has a host of its own: the same port on every host.

    Raises:
        UsageError: there are no hosts for such a topology.
    """
    return {host.task: host.server for host in plan_hosts(topology) if host.linked}


@contextlib.contextmanager
def hold_addresses(topology: Topology, *, hosts: bool) -> Iterator[dict[str, str]]:
    """`host:port` of each task with an address: the same port on each one's own host, else a held port of this machine.

    Raises:
        PortsUnavailable: no port could be held.
        UsageError: there are no hosts for such a topology.
    """
    if hosts:
        yield host_addresses(topology)
        return
    with hold_ports(topology.networked) as ports:
        yield {task: f"127.0.0.1:{port}" for task, port in ports.items()}
