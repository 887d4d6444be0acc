"""The parent's side of the relay: starts its process, hands it the listeners, tells each task where its own is."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.helpers.doorkeeper import Descriptor
from simulator.helpers.relay.door import proxy_url, request
from simulator.launch import Launched, forkserver
from simulator.machines.local.warden import warden
from simulator.network.helper import Helper, NetworkEnded
from simulator.network.hosts import Hosts
from simulator.wire import network as wire

__all__ = ["LinkRefused", "Relay", "RelayEnded"]

_END_SECONDS_MAX = 5.0
# How often a probe that waits asks whether anybody still wants to know.
_ASK_SECONDS = 0.1
_BACKLOG = 128
_PRELOAD = ("simulator.helpers.relay.relay",)


class RelayEnded(NetworkEnded):
    """Raised when the relay is asked for something and is not there any more."""


class LinkRefused(LockstepError):
    """Raised when a probe's connection was refused or reset."""


class Relay:
    """A started relay process.

    Args:
        addresses: `host:port` of each task's server.
        seed: of the jitter.
        queue_bytes: what each direction of a connection has on its way at most.
        hosts: those of the tasks, if they have some of their own.
        changed: notified whenever the relay has said something or ended.
        hear: gets what the relay says unasked.
        on_ended: called when the relay ends before it was told to.
    """

    def __init__(
        self,
        addresses: Mapping[str, str],
        *,
        seed: int,
        queue_bytes: int,
        hosts: Hosts | None,
        changed: threading.Condition,
        hear: Callable[[wire.FromHelper], None],
        on_ended: Callable[[], None],
    ) -> None:
        control, far = socket.socketpair()
        own = {task: _listen() for task in addresses}
        listeners = {task: hosts.listener(task) for task in addresses} if hosts else own
        self._ports = {task: _port(listener) for task, listener in listeners.items()}
        self._key = secrets.token_hex(16)
        self._probes = {task: _port(listener) for task, listener in own.items()}
        numbers = {task: listener.fileno() for task, listener in listeners.items()}
        # The listeners of hosts cannot be reached from here.
        probes = {task: listener.fileno() for task, listener in own.items()} if hosts else {}
        networks = {task: hosts.network(task) for task in addresses} if hosts else {}
        user = [hosts.user] if hosts else []
        try:
            self._process = _start(far, [*numbers.values(), *probes.values(), *networks.values(), *user])
        except BaseException:
            control.close()
            raise
        finally:
            far.close()
            for listener in own.values():
                listener.close()
        self.helper = Helper("relay", control, changed, hear=hear, on_ended=on_ended, error=RelayEnded)
        self.helper.say(
            wire.Start(
                listeners=numbers,
                probes=probes,
                targets={address: task for task, address in addresses.items()},
                seed=seed,
                queue_bytes=queue_bytes,
                user=hosts.user if hosts else None,
                networks=networks,
                addresses={host.name: host.address for host in hosts.plan.values()} if hosts else {},
                key=self._key,
            )
        )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def environ(self, task: str) -> dict[str, str]:
        """What the environment of a task needs so that its gRPC connections go through the relay."""
        port = self._ports.get(task)
        return {} if port is None else {"grpc_proxy": proxy_url(port, self._key)}

    def close(self) -> None:
        """End the relay, for certain."""
        self.helper.dismiss()
        self._process.end(_END_SECONDS_MAX)
        warden.forget_group(self._process.pid)
        self.helper.close(_END_SECONDS_MAX)

    def probe(self, src: str, dst: str, timeout: float, given_up: Callable[[], bool] = lambda: False) -> float:
        """Round trip of one byte from `src` to the far end of the relay and back, in seconds, uncounted.

        Raises:
            DeadlineExceeded: no answer within `timeout` seconds, or it was given up.
            LinkRefused: the connection was refused or reset.
        """
        deadline = time.monotonic() + timeout
        try:
            with socket.create_connection(("127.0.0.1", self._probes[src]), timeout) as probe:
                probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                probe.sendall(request(f"{wire.PROBE_HOST}/{dst}", self._key))
                if b" 200 " not in _receive(probe, deadline, given_up):
                    raise LinkRefused(f"a connection from {src} to {dst} is refused")
                began = time.monotonic()
                probe.sendall(b"?")
                if not _receive(probe, deadline, given_up):
                    raise LinkRefused(f"a connection from {src} to {dst} is closed")
                return time.monotonic() - began
        except TimeoutError:
            raise DeadlineExceeded(f"a round trip from {src} to {dst}", timeout) from None
        except OSError as error:
            raise LinkRefused(f"a connection from {src} to {dst} is reset ({error})") from None


def _start(control: socket.socket, passed: Iterable[int]) -> Launched:
    """Fork the relay, from a process that has imported what it needs and nothing else: that takes milliseconds.

    Started with an interpreter of its own it would take 0.1 s, which every run of several tasks would have to pay.
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


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(_BACKLOG)
    return listener


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _receive(connection: socket.socket, deadline: float, given_up: Callable[[], bool]) -> bytes:
    while not given_up():
        if (seconds := deadline - time.monotonic()) <= 0:
            break
        connection.settimeout(min(seconds, _ASK_SECONDS))
        with contextlib.suppress(TimeoutError):
            return connection.recv(4096)
    raise TimeoutError
