"""The parent's side of a relay on another machine: its words go through the machine's stream."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from simulator.errors import DeadlineExceeded, LockstepError
from simulator.helpers.relay.door import proxy_url
from simulator.launch.relaying import LinkRefused
from simulator.machines.far.machine import FarMachine
from simulator.network.helper import Helper
from simulator.network.relay import RelayEnded
from simulator.threads import Worker
from simulator.wire import network as wire
from simulator.wire import site

_END_SECONDS_MAX = 5.0
# Besides what a probe itself waits.
_ANSWER_SECONDS_MAX = 5.0


class FarRelay:
    """A started relay process on the machine of these tasks; see `Relay`.

    Args:
        machine: where it is.
        tasks: those of the machine that have servers.
        addresses: `host:port` of the server of each task of the run.
        seed: of the jitter.
        queue_bytes: what each direction of a connection has on its way at most.
        chain_key: by which the relays of the run know each other.
        changed: notified whenever the relay has said something or ended.
        hear: gets what the relay says unasked.
        on_ended: called when the relay ends before it was told to.
    """

    def __init__(
        self,
        machine: FarMachine,
        tasks: Sequence[str],
        addresses: Mapping[str, str],
        *,
        seed: int,
        queue_bytes: int,
        chain_key: str,
        changed: threading.Condition,
        hear: Callable[[wire.FromHelper], None],
        on_ended: Callable[[], None],
    ) -> None:
        self.machine = machine
        self.tasks = tuple(tasks)
        self._hear = hear
        self._key = secrets.token_hex(16)
        control, self._far = socket.socketpair()
        self.helper = Helper("relay", control, changed, hear=self._heard, on_ended=on_ended, error=RelayEnded)
        asked = partial(
            site.StartRelay,
            tasks=tuple(tasks),
            targets={address: task for task, address in addresses.items()},
            hosts=tuple(dict.fromkeys(address.rpartition(":")[0] for address in addresses.values())),
            seed=seed,
            queue_bytes=queue_bytes,
            key=self._key,
            address=machine.address,
            chain_key=chain_key,
        )
        try:
            answer = machine.relay(asked, self._said)
        except BaseException:
            self._far.close()
            raise
        self._ports = answer.ports
        # Where the relays of other machines reach it.
        self.address = f"{machine.address}:{answer.chained}"
        self._carrier = Worker.started("relay", self._carry)

    def environ(self, task: str) -> dict[str, str]:
        """What the environment of a task needs so that its gRPC connections go through the relay."""
        port = self._ports.get(task)
        return {} if port is None else {"grpc_proxy": proxy_url(port, self._key)}

    def has(self, task: str) -> bool:
        """Whether it is the one through which this task connects."""
        return task in self._ports

    def probe(self, src: str, dst: str, timeout: float, given_up: Callable[[], bool], steady: bool) -> float:
        """As of `Relay`; it is not given up before its time."""
        try:
            asked = partial(site.Probe, src=src, dst=dst, seconds=timeout, steady=steady)
            return self.machine.ask(asked, timeout + _ANSWER_SECONDS_MAX).seconds
        except LockstepError as error:
            if "LinkRefused: " in str(error):
                raise LinkRefused(str(error)) from None
            if "DeadlineExceeded: " in str(error):
                raise DeadlineExceeded(f"a round trip from {src} to {dst}", timeout) from None
            raise

    def close(self) -> None:
        """End the relay."""
        self.helper.dismiss()
        self.helper.close(_END_SECONDS_MAX)
        self._carrier.join()
        self._far.close()

    def _heard(self, message: wire.FromHelper) -> None:
        if isinstance(message, wire.Fired):
            message = msgspec.structs.replace(message, at=self.machine.clock.here(message.at))
        self._hear(message)

    def _said(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            self._far.sendall(data) if data else self._far.shutdown(socket.SHUT_WR)

    def _carry(self) -> None:
        data = b"?"
        while data:
            try:
                data = self._far.recv(1 << 16)
            except OSError:
                return
            self.machine.tell_relay(data)
