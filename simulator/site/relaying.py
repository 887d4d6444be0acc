"""The relay of the tasks on this machine; the run tells it what to do, through this process."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from simulator.errors import DeadlineExceeded
from simulator.launch.relaying import LinkRefused, end_relay, fork_relay, listen, port_of, probe
from simulator.threads import Worker
from simulator.wire import network
from simulator.wire import site as wire


class Relaying:
    """A started relay process.

    Args:
        asked: what it is for.
        say: sends a message to the run.
    """

    def __init__(self, asked: wire.StartRelay, say: Callable[[wire.FromSite], None]) -> None:
        self._key = asked.key
        self._say = say
        self._control, far = socket.socketpair()
        listeners = {task: listen() for task in asked.tasks}
        self.ports = {task: port_of(listener) for task, listener in listeners.items()}
        chained = listen(asked.address)
        self.chained = port_of(chained)
        try:
            self._process = fork_relay(far, [listener.fileno() for listener in (*listeners.values(), chained)])
            start = network.RelayStart(
                listeners={task: listener.fileno() for task, listener in listeners.items()},
                targets=asked.targets,
                seed=asked.seed,
                queue_bytes=asked.queue_bytes,
                addresses={host: host for host in asked.hosts},
                key=asked.key,
                chained=chained.fileno(),
                chain_key=asked.chain_key,
            )
        finally:
            far.close()
            for listener in (*listeners.values(), chained):
                listener.close()
        self._control.sendall(network.encode(start))
        self._carrier = Worker.started("relaying", self._carry)

    def told(self, data: bytes) -> None:
        """What the run says to it; nothing if that was all."""
        with contextlib.suppress(OSError):  # that it has ended is told by `_carry`
            self._control.sendall(data) if data else self._control.shutdown(socket.SHUT_WR)

    def probe(self, asked: wire.Probe) -> wire.FromSite:
        """Try a round trip."""
        try:
            port = self.ports[asked.src]
            seconds = probe(port, self._key, asked.src, asked.dst, asked.seconds, steady=asked.steady)
        except (DeadlineExceeded, LinkRefused) as error:
            return wire.Refused(asked.request, type(error).__name__, str(error))
        return wire.CallDone(asked.request, 0.0, seconds=seconds)

    def close(self) -> None:
        """End it."""
        self.told(b"")
        end_relay(self._process)
        self._carrier.join()
        self._control.close()

    def _carry(self) -> None:
        data = b"?"
        while data:
            try:
                data = self._control.recv(1 << 16)
            except OSError:
                data = b""
            self._say(wire.RelayMessage(data))
