"""The relay process: an HTTP CONNECT proxy with one listener for each task, which tells the source of a connection.

The target of the CONNECT tells the destination. The parent binds the listeners and hands them over together with one
end of a socket pair; when the other end closes, the relay ends. Imported without TensorFlow, it starts in 0.1 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import resource
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from functools import partial

from simulator import kernel
from simulator.helpers.relay.directed import Directed, Trigger
from simulator.helpers.relay.door import LOOPBACK, listens, may_enter, read_head, request, source, target
from simulator.helpers.relay.pump import PumpConnection
from simulator.helpers.relay.timers import Timers
from simulator.wire import network as wire
from simulator.wire.network import PROBE_HOST, STEADY_PROBE_HOST

_HEAD_SECONDS_MAX = 10.0
# From a connection's beginning to the answer of another machine's relay, which has nothing to wait for: a task there is
# reached on its own machine. Behind a pulled cable the kernel would send again for a quarter of an hour.
_CHAINED_SECONDS_MAX = 10.0
_PROBE_HOSTS = (PROBE_HOST, STEADY_PROBE_HOST)
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_NO_KEY = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
_NOT_OURS = b"HTTP/1.1 403 Not an address of this run\r\nContent-Length: 0\r\n\r\n"


class _TurnedAwayError(Exception):
    """Raised when a request is not to be connected; `answer` is what it gets."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer


class _Relay:
    def __init__(self, loop: asyncio.AbstractEventLoop, control: socket.socket, passed: Mapping[int, int]) -> None:
        self._passed = passed
        self._loop = loop
        self._control = control
        self._timers = Timers(loop)
        self._links: dict[tuple[str, str], Directed] = {}
        self._inbox = wire.Inbox(wire.TO_HELPER)
        self._handshakes: set[asyncio.Task[None]] = set()
        self._start = wire.RelayStart(listeners={}, targets={}, seed=0, queue_bytes=1)
        self._sessions: set[int] = set()
        self._turned_away: Counter[tuple[str, str]] = Counter()
        # The relay of the machine of each task that is on another one.
        self._chained: dict[str, str] = {}
        self.ended = loop.create_future()
        loop.add_reader(control, self._hear)

    # -- the parent

    def _hear(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._control)
            self.ended.set_result(None)
            return
        for message in self._inbox.feed(data):
            self._obey(message)

    def _obey(self, message: wire.ToHelper) -> None:
        if isinstance(message, wire.RelayStart):
            self._begin(message)
            return
        if isinstance(message, wire.Belongs):
            self._sessions.add(message.pid)
            return
        if isinstance(message, wire.Count):
            links = [link.counters() for link in self._links.values() if link.connections or link.tally.bytes]
            self._say(wire.Counted(request=message.request, links=links))
            return
        if isinstance(message, wire.Chained):
            self._chained = dict(message.relays)
        elif isinstance(message, wire.Install):
            self._install(message)
        elif isinstance(message, wire.Remove):
            for link in list(self._links.values()):
                link.remove(message.rule)
        else:
            for src, dst in message.pairs:
                self._link(src, dst).clear()
        self._say(wire.Done(request=message.request))

    def _say(self, message: wire.FromHelper) -> None:
        with contextlib.suppress(OSError):  # the parent has just gone, which `_hear` notices
            self._control.sendall(wire.encode(message))

    def break_down(self, error: BaseException) -> None:
        """End by a defect of the relay, which the parent is told; it would otherwise go on without what has failed."""
        traceback.print_exception(type(error), error, error.__traceback__)
        self._say(wire.Broken(f"{type(error).__name__}: {error}"))
        sys.stderr.flush()
        os._exit(1)

    def _begin(self, start: wire.RelayStart) -> None:
        self._start = start
        if start.user is not None:
            kernel.set_namespace(self._passed[start.user], kernel.NEW_USER)
        for listeners, only_probes in ((start.listeners, False), (start.probes, True)):
            for task, fd in listeners.items():
                listener = socket.socket(fileno=self._passed[fd])
                self._listen(listener, partial(self._connect, task, only_probes))
        if start.chained is not None:
            self._listen(socket.socket(fileno=self._passed[start.chained]), self._join)
        self._say(wire.Started(timer=self._timers.kind))

    # -- rules

    def _link(self, src: str, dst: str) -> Directed:
        if (src, dst) not in self._links:
            # A stream of its own for each link, so that a new condition on one does not change the jitter of another.
            draws = random.Random(f"{self._start.seed}/{src}/{dst}")
            self._links[src, dst] = Directed(src, dst, self._timers, draws)
        return self._links[src, dst]

    def _install(self, message: wire.Install) -> None:
        for src, dst in message.pairs:
            if not message.is_triggered:
                self._activate(message, src, dst)
                continue
            link = self._link(src, dst)

            def fire(src: str = src, dst: str = dst, link: Directed = link) -> None:
                self._activate(message, src, dst)
                self._say(wire.Fired(message.rule, src, dst, time.monotonic(), link.tally.bytes, link.connections))

            link.triggers.append(Trigger(message.rule, message.after_bytes, message.after_connections, fire))
            link.check_triggers()

    def _activate(self, message: wire.Install, src: str, dst: str) -> None:
        self._link(src, dst).activate(message.rule, message.conditions)
        if message.both:
            self._link(dst, src).activate(message.rule, message.conditions)

    # -- connections

    def _listen(self, listener: socket.socket, greet: Callable[[socket.socket], Coroutine[None, None, None]]) -> None:
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, listener, greet)

    def _accept(self, listener: socket.socket, greet: Callable[[socket.socket], Coroutine[None, None, None]]) -> None:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        client.setblocking(False)
        handshake = self._loop.create_task(greet(client))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._greeted)

    def _greeted(self, handshake: asyncio.Task[None]) -> None:
        self._handshakes.discard(handshake)
        if not handshake.cancelled() and (error := handshake.exception()) is not None:
            self.break_down(error)

    async def _connect(self, task: str, only_probes: bool, client: socket.socket) -> None:
        try:
            head, extra = await asyncio.wait_for(read_head(self._loop, client), _HEAD_SECONDS_MAX)
            host, port = await self._admit(task, head, only_probes)
            await self._establish(task, client, (host, port), extra)
        except _TurnedAwayError as refusal:
            await self._answer(client, refusal.answer)
        except (OSError, ValueError, asyncio.TimeoutError):
            client.close()

    async def _admit(self, task: str, head: bytes, only_probes: bool) -> tuple[str, str]:
        """Host and port to which a request may be connected.

        Raises:
            _TurnedAwayError: it comes from nobody of this run, or leads out of it.
            ValueError: it asks for something else.
        """
        host, port = target(head, _PROBE_HOSTS)
        if only_probes and host not in _PROBE_HOSTS:
            raise ValueError("not a probe")
        if not may_enter(head, self._start.key):
            self._turn_away(task, "")
            raise _TurnedAwayError(_NO_KEY)
        if not await self._is_ours(host, port):
            self._turn_away(task, f"{host}:{port}")
            raise _TurnedAwayError(_NOT_OURS)
        return host, port

    async def _is_ours(self, host: str, port: str) -> bool:
        if host in _PROBE_HOSTS:
            return port in self._start.targets.values()
        if self._address(host, port) in self._start.targets:
            return True
        if not port.isdecimal() or not 0 < int(port) < 2**16:
            return False
        if self._start.networks:
            # Hosts have nobody else on them, and each its own loopback interface.
            hosts = self._start.addresses
            return host in LOOPBACK or host in hosts or host in hosts.values()
        if host in self._start.addresses.values():  # another machine of the run
            return True
        # In a thread: it takes some milliseconds, in which bytes have to be relayed.
        return host in LOOPBACK and await asyncio.to_thread(listens, port, frozenset(self._sessions))

    def _turn_away(self, task: str, address: str) -> None:
        self._turned_away[task, address] += 1
        count = self._turned_away[task, address]
        if count & (count - 1) == 0:  # so that nobody fills the journal
            self._say(wire.TurnedAway(task, address, count))

    async def _establish(self, task: str, client: socket.socket, where: tuple[str, str], extra: bytes) -> None:
        host, port = where
        counted, steady = host not in _PROBE_HOSTS, host == STEADY_PROBE_HOST
        dst = self._destination(host, port)
        out, back = self._link(task, dst), self._link(dst, task)
        if counted:
            out.connected()
        while out.is_shut or back.is_shut:
            await out.wait_open()
            await back.wait_open()
        # A handshake goes there and back once.
        if delay := out.draw(steady) + back.draw(steady):
            await self._timers.sleep_until(time.monotonic() + delay)
        chained = self._chained.get(dst) if counted else None
        server, said = None, b""
        if not out.refusing:
            if chained is None:
                server = await self._reach(task, host, port)
            else:
                # What comes back has had its conditions, and has been counted, where it comes from.
                server, said = await self._reach_chained(chained, f"{host}:{port}", task)
                back = self._passing(dst, task)
        if server is None:
            out.refused += counted
            await self._refuse(client)
            return
        await self._join_up((out, back), (client, server), extra, said, counted=counted, steady=steady)

    async def _join(self, client: socket.socket) -> None:
        """Connect whom the relay of another machine asks for with a task of this one."""
        try:
            head, extra = await asyncio.wait_for(read_head(self._loop, client), _HEAD_SECONDS_MAX)
            host, port = target(head, _PROBE_HOSTS)
            task, src = self._start.targets.get(f"{host}:{port}"), source(head)
            if not may_enter(head, self._start.chain_key) or task not in self._start.listeners or not src:
                self._turn_away("", "")
                raise _TurnedAwayError(_NO_KEY)
            server = await self._reach(task, host, port)
            if server is None:
                await self._refuse(client)
                return
            # What comes has had its conditions, and has been counted, there.
            await self._join_up((self._passing(src, task), self._link(task, src)), (client, server), extra, b"")
        except _TurnedAwayError as refusal:
            await self._answer(client, refusal.answer)
        except (OSError, ValueError, asyncio.TimeoutError):
            client.close()

    def _passing(self, src: str, dst: str) -> Directed:
        """A link without conditions, which nobody counts: the relay of the other machine is the one of this link."""
        return Directed(src, dst, self._timers, random.Random(0))

    async def _refuse(self, client: socket.socket) -> None:
        await self._answer(client, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")

    async def _answer(self, client: socket.socket, answer: bytes) -> None:
        with contextlib.suppress(OSError):
            await self._loop.sock_sendall(client, answer)
        client.close()

    async def _join_up(
        self,
        links: tuple[Directed, Directed],
        ends: tuple[socket.socket, socket.socket],
        extra: bytes,
        said: bytes,
        *,
        counted: bool = True,
        steady: bool = False,
    ) -> None:
        """Tell the opener that it is connected, and begin to carry; `extra` and `said` have come of either end."""
        client, server = ends
        for end in ends:
            if end.family != socket.AF_UNIX:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            await self._loop.sock_sendall(client, _ESTABLISHED)
        except OSError:
            server.close()
            raise
        limit = self._start.queue_bytes
        made = PumpConnection(self._loop, self._timers, links, ends, queue_bytes=limit, counted=counted, steady=steady)
        made.start(extra, said)

    async def _reach_chained(self, relay: str, address: str, src: str) -> tuple[socket.socket | None, bytes]:
        """Have the relay of another machine connect a task of this one; what has come from there already.

        `None` if it does not, or has not said so in time: its machine may be cut off.
        """
        try:
            return await asyncio.wait_for(self._asked_for(relay, address, src), _CHAINED_SECONDS_MAX)
        except (OSError, ValueError, asyncio.TimeoutError):
            return None, b""

    async def _asked_for(self, relay: str, address: str, src: str) -> tuple[socket.socket | None, bytes]:
        host, _, port = relay.rpartition(":")
        server = await self._reach(src, host, port)
        if server is None:
            return None, b""
        is_joined = False
        try:
            await self._loop.sock_sendall(server, request(address, self._start.chain_key, src))
            head, said = await read_head(self._loop, server)
            is_joined = b" 200 " in head.split(b"\r\n")[0]
        finally:
            if not is_joined:
                server.close()
        return (server, said) if is_joined else (None, b"")

    def _destination(self, host: str, port: str) -> str:
        if host in _PROBE_HOSTS:
            return port
        return self._start.targets.get(self._address(host, port)) or f"{host}:{port}"

    @staticmethod
    def _address(host: str, port: str) -> str:
        return f"{'127.0.0.1' if host in LOOPBACK else host}:{port}"

    async def _reach(self, task: str, host: str, port: str) -> socket.socket | None:
        """Connect the task to the destination, from the task's own host if it has one; `None` if nobody listens."""
        if host in _PROBE_HOSTS:
            return _echo(self._loop)
        try:
            known = self._start.addresses.get(host, host)
            found = await self._loop.getaddrinfo(known, int(port), type=socket.SOCK_STREAM)
        except OSError:
            return None
        for family, kind, number, _, address in found:
            if task in self._start.networks:
                # A socket stays in the network in which it was made, wherever its process goes.
                kernel.set_namespace(self._passed[self._start.networks[task]], kernel.NEW_NETWORK)
            server = socket.socket(family, kind, number)
            server.setblocking(False)
            try:
                await self._loop.sock_connect(server, address)
            except OSError:
                server.close()
            except asyncio.CancelledError:
                server.close()
                raise
            else:
                return server
        return None


def _echo(loop: asyncio.AbstractEventLoop) -> socket.socket:
    """A socket that gets back what it sends: the far end of a probe."""
    near, far = socket.socketpair()
    for end in (near, far):
        end.setblocking(False)

    def answer() -> None:
        try:
            data = far.recv(4096)
            if data:
                far.send(data)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            loop.remove_reader(far)
            far.close()

    loop.add_reader(far, answer)
    return near


async def _serve(control: socket.socket, passed: Mapping[int, int]) -> None:
    loop = asyncio.get_running_loop()
    relay = _Relay(loop, control, passed)
    # What a callback raises is otherwise only printed, and again and again where a socket stays readable.
    loop.set_exception_handler(
        lambda _, context: relay.break_down(context.get("exception") or RuntimeError(context["message"]))
    )
    # Everything that lives as long as the process is alive by now; collections need not look at it.
    gc.collect()
    gc.freeze()
    await relay.ended


def main(fd: int, passed: Mapping[int, int]) -> None:
    """Relay until the parent closes its end of the control socket `fd`.

    Args:
        fd: its number here.
        passed: the number here of each descriptor that the parent's messages name by its number there.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    # Two descriptors a connection: 32 workers that all talk to each other need more than the usual 1024.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.run(_serve(socket.socket(fileno=fd), passed))
    # Not waiting for connections that are still open: their tasks are gone, or about to be.
    os._exit(0)
