"""The parent's side of the relay: starts its process, hands it the listeners, tells each task where its own is."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable, Mapping

from simulator.helpers.relay.door import proxy_url
from simulator.launch.relaying import LinkRefused, end_relay, fork_relay, listen, port_of, probe
from simulator.network.helper import Helper, NetworkEnded
from simulator.network.hosts import Hosts
from simulator.wire import network as wire

__all__ = ["LinkRefused", "Relay", "RelayEnded"]

_END_SECONDS_MAX = 5.0


class RelayEnded(NetworkEnded):
    """Raised when the relay is asked for something and is not there any more."""


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
        own = {task: listen() for task in addresses}
        listeners = {task: hosts.listener(task) for task in addresses} if hosts else own
        self._ports = {task: port_of(listener) for task, listener in listeners.items()}
        self._key = secrets.token_hex(16)
        self._probes = {task: port_of(listener) for task, listener in own.items()}
        numbers = {task: listener.fileno() for task, listener in listeners.items()}
        # The listeners of hosts cannot be reached from here.
        probes = {task: listener.fileno() for task, listener in own.items()} if hosts else {}
        networks = {task: hosts.network(task) for task in addresses} if hosts else {}
        user = [hosts.user] if hosts else []
        try:
            self._process = fork_relay(far, [*numbers.values(), *probes.values(), *networks.values(), *user])
        except BaseException:
            control.close()
            raise
        finally:
            far.close()
            for listener in own.values():
                listener.close()
        self.helper = Helper("relay", control, changed, hear=hear, on_ended=on_ended, error=RelayEnded)
        self.helper.say(
            wire.RelayStart(
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
        end_relay(self._process)
        self.helper.close(_END_SECONDS_MAX)

    def probe(self, src: str, dst: str, timeout: float, given_up: Callable[[], bool], steady: bool) -> float:
        """As of `simulator.launch.relaying.probe`."""
        return probe(self._probes[src], self._key, src, dst, timeout, given_up, steady)
