"""The keeper: the process that makes the hosts of a run, joins them with cables, and changes conditions on these.

It owns the user namespace of the hosts, so that it may do with them what only an administrator may, and with nothing
else. Namespaces last as long as something is in them: when the keeper and the tasks have gone, so have the cables.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from typing import Any, NoReturn

from simulator import kernel
from simulator.helpers.doorkeeper import Descriptor
from simulator.helpers.hosts.cables import Cables, Inside
from simulator.helpers.rules import Rules
from simulator.wire import network as wire
from simulator.wire.hosts import ECHO_PORT, Host

_TIMED = ("blackhole",)


def main(control: Descriptor, doors: Descriptor, hosts: tuple[Host, ...]) -> NoReturn:
    """Keep the hosts until the parent closes its end of `control`.

    Args:
        control: a connection to the parent, for the messages of `protocol`.
        doors: a connection to the parent that takes, for each host, descriptors of its network namespace, of a socket
            that listens on its loopback interface, and of a UDP socket; with the first that of the user namespace.
        hosts: what to make.
    """
    os.setsid()
    kernel.die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=doors.number) as door:
        try:
            keeper = _Keeper(socket.socket(fileno=control.number), hosts)
        except Exception as error:  # noqa: BLE001 - the parent reports it, whatever the kernel or pyroute2 refused
            door.send(f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        keeper.hand_over(door)
    keeper.serve()
    os._exit(0)


class _Keeper:
    def __init__(self, control: socket.socket, hosts: tuple[Host, ...]) -> None:
        user, group = os.getuid(), os.getgid()
        kernel.unshare(kernel.NEW_USER)
        kernel.die_with_parent()
        kernel.map_user(0, user, 0, group)
        self._control = control
        self._insides = {host.task: Inside(host) for host in hosts}
        self._cables = Cables(self._insides)
        self._rules = {link: Rules() for link in self._cables.ends}
        self._inbox = wire.Inbox(wire.TO_HELPER)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)
        for inside in self._insides.values():
            echo = self._bind(inside, inside.host.address, ECHO_PORT)
            self._selector.register(echo, selectors.EVENT_READ)

    @staticmethod
    def _bind(inside: Inside, address: str, port: int) -> socket.socket:
        inside.enter()
        bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bound.setblocking(False)
        bound.bind((address, port))
        return bound

    def hand_over(self, door: socket.socket) -> None:
        """Give the parent the descriptors it needs; it may use the sockets although it is in none of the hosts."""
        user = os.open("/proc/self/ns/user", os.O_RDONLY)
        for inside in self._insides.values():
            inside.enter()
            with (
                socket.create_server(("127.0.0.1", 0), backlog=128) as listener,
                self._bind(inside, inside.host.address, 0) as prober,
            ):
                socket.send_fds(door, [b""], [inside.namespace, listener.fileno(), prober.fileno(), user])
        os.close(user)

    # -- the parent

    def serve(self) -> None:
        """Obey the parent, answer probes, and end conditions in time."""
        while True:
            for key, _ in self._selector.select(self._seconds_left()):
                ready: Any = key.fileobj
                if ready is not self._control:
                    _answer(ready)
                elif not self._hear():
                    return
            self._apply()

    def _seconds_left(self) -> float | None:
        ends = [end for rules in self._rules.values() if (end := rules.next_end(_TIMED))]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _hear(self) -> bool:
        try:
            data = self._control.recv(1 << 16)
        except OSError:
            data = b""
        for message in self._inbox.feed(data):
            answer = self._obey(message)
            try:
                self._control.sendall(wire.encode(answer))
            except OSError:
                return False
        return bool(data)

    def _obey(self, message: wire.ToHelper) -> wire.FromHelper:
        assert not isinstance(message, (wire.RelayStart, wire.Chained, wire.Belongs))
        if isinstance(message, wire.Count):
            return wire.Counted(request=message.request, links=self._cables.counters())
        if isinstance(message, wire.Install):
            back = [(dst, src) for src, dst in message.pairs] if message.both else []
            for link in (*message.pairs, *back):
                self._rules[link].put(message.rule, message.conditions)
        elif isinstance(message, wire.Remove):
            for rules in self._rules.values():
                rules.drop(message.rule)
        else:
            for link in message.pairs:
                self._rules[link].clear()
        self._apply()
        return wire.Done(request=message.request)

    def _apply(self) -> None:
        """Have the kernel do what the rules add up to now."""
        for link, rules in self._rules.items():
            end = self._cables.ends[link]
            end.limit(rules.last("rate") or 0.0)
            end.lose(1.0 if rules.lasts("blackhole") else rules.last("loss") or 0.0)


def _answer(echo: socket.socket) -> None:
    try:
        data, sender = echo.recvfrom(512)
        echo.sendto(data, sender)
    except OSError:
        return
