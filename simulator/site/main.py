"""The site of runs on another machine: obeys what comes on standard input, and tells on standard output."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from simulator.machines.local import facts
from simulator.machines.local.host import cores, memory_bytes
from simulator.machines.local.scratch import make_scratch, remove_scratch
from simulator.machines.protocol import Broke, Event, MachineSilent, Silent
from simulator.site.local_run import LocalRun
from simulator.threads import Worker
from simulator.wire import site as wire
from simulator.wire.events import Ended
from simulator.wire.framing import Malformed
from simulator.wire.site import Beat, FromSite, Peer

_READ_BYTES_MAX = 1 << 20


def main() -> None:
    """Serve until the other end closes, or the lease is over; then nothing is left."""
    every, seconds = (float(word) for word in sys.argv[1:3])
    # As in an activated environment: what ssh starts has read no profile, and `python` may be another one, or none.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    told, teller = os.dup(0), os.dup(1)
    # Nobody else may read or write there; what a library prints goes where errors go.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    _Site(told, teller, every, seconds).serve()
    os._exit(0)


@dataclass
class _Site:
    told: int
    teller: int
    every: float
    seconds: float

    def __post_init__(self) -> None:
        self._outbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ordered: queue.SimpleQueue[wire.ToSite] = queue.SimpleQueue()
        self._ending = threading.Lock()
        self._share: LocalRun | None = None
        self._folder: Path | None = None
        self._directory = make_scratch("machine")
        self._answering = Answering()
        for work in (self._write, self._obey_all):
            Worker.started(work.__name__.strip("_"), work, self._give_up)

    # -- the stream

    def serve(self) -> None:
        """Hear what comes, until there is no more."""
        self._say(self._up())
        self._lease = SiteLease(self._say, self._leave, every=self.every, seconds=self.seconds)
        inbox = wire.inbox(wire.TO_SITE)
        with contextlib.suppress(OSError, Malformed):
            while data := os.read(self.told, _READ_BYTES_MAX):
                for message in inbox.feed(data):
                    self._hear(message)
        self._leave()

    def _say(self, message: wire.FromSite) -> None:
        self._outbox.put(wire.encode(message))

    def _write(self) -> None:
        while data := memoryview(self._outbox.get()):
            try:
                while data:
                    data = data[os.write(self.teller, data) :]
            except OSError:  # whoever reads has gone, which is seen at the other stream
                return

    def _up(self) -> wire.Up:
        return wire.Up(
            host=os.uname().nodename,
            cores=cores(),
            memory=memory_bytes(),
            python=facts.python_version(),
            tensorflow=facts.tensorflow_version(),
            code=facts.code_digest(),
            addresses=facts.addresses(),
            kernel=facts.kernel(),
            port=self._answering.port,
            token=self._answering.token,
            at=time.monotonic(),
        )

    def _leave(self) -> None:
        """End every task, and this process: nobody will ask for anything any more, or is allowed to."""
        with self._ending:
            self._lease.close()
            if self._share is not None:
                self._share.end_all()
            remove_scratch(self._directory)
            os._exit(0)

    def _give_up(self, error: BaseException) -> None:
        """Tell the run that something of this site's own does not work any more."""
        self._say(wire.SiteBroken("its site", type(error).__name__, str(error)))

    # -- what is asked for

    def _hear(self, message: wire.ToSite) -> None:
        if isinstance(message, wire.Grant):
            self._lease.granted(message.number)
        elif isinstance(message, wire.Off):
            os.kill(os.getpid(), signal.SIGKILL)
        elif isinstance(message, wire.ClockQuery):
            self._say(wire.CallDone(message.request, time.monotonic()))
        elif isinstance(message, (wire.EndTasks, wire.Probe, wire.Reach)):
            # They take a while, and the tasks are told other things meanwhile.
            Worker.started(type(message).__name__.lower(), partial(self._obey, message), self._give_up)
        else:
            self._ordered.put(message)

    def _obey_all(self) -> None:
        while True:
            self._obey(self._ordered.get())

    def _obey(self, message: wire.ToSite) -> None:
        request = getattr(message, "request", 0)
        try:
            answer = self._answer(message, request)
        except Exception as error:  # noqa: BLE001 - whoever has asked has to hear of it
            number = error.errno if isinstance(error, OSError) and error.errno is not None else 0
            answer = wire.Refused(request, type(error).__name__, str(error), number)
        if request:
            self._say(answer)

    def _answer(self, message: wire.ToSite, request: int) -> wire.FromSite:
        if isinstance(message, wire.Open):
            self._answering.close()
            cwd = message.cwd or str(self._folder)
            directory = self._directory / str(request)
            self._share = LocalRun.of(message, directory, cwd, self._hear_event, self._say)
            return wire.CallDone(request, time.monotonic(), addresses=dict(self._share.addresses))
        if isinstance(message, wire.Reach):
            met = reached(message.peers, message.seconds)
            return wire.CallDone(request, time.monotonic(), addresses=met)
        if isinstance(message, wire.Sought):
            with contextlib.suppress(OSError):
                return wire.CallDone(request, time.monotonic(), found=Path(message.path).read_text() == message.text)
            return wire.CallDone(request, time.monotonic())
        if isinstance(message, wire.Ship):
            self._folder = LocalRun.unpacked(message.archive, self._directory / "files")
            return wire.CallDone(request, time.monotonic())
        if isinstance(message, wire.Close):
            share, self._share = self._share, None
            pids = () if share is None else share.close()
            return wire.CallDone(request, time.monotonic(), pids=tuple(pids))
        assert self._share is not None
        if isinstance(message, wire.StartRelay):
            return self._share.relay(message, self._say)
        if isinstance(message, (wire.Probe, wire.RelayMessage)):
            return self._relayed(message)
        return self._share.answer(message, request)

    def _relayed(self, message: wire.Probe | wire.RelayMessage) -> wire.FromSite:
        relaying = None if self._share is None else self._share.relaying
        if isinstance(message, wire.Probe):
            assert relaying is not None
            return relaying.probe(message)
        if relaying is not None:
            relaying.told(message.data)
        return wire.CallDone(0, 0.0)

    def _hear_event(self, event: Event) -> None:
        """Tell the run, which is on another machine, what the machinery of this one has told."""
        if isinstance(event, Broke):
            self._say(wire.SiteBroken(event.what, type(event.error).__name__, str(event.error)))
            return
        assert not isinstance(event, (Silent, MachineSilent)), "only the run's side gives a machine up"
        if isinstance(event, Ended) and self._share is not None:
            self._share.following.catch_up(event.who.task)
        self._say(event)


class SiteLease:
    """Asks until `close`.

    Args:
        say: sends a message.
        expired: called once when it is over, in a thread of its own.
        every: seconds between two questions.
        seconds: for how long it is good.
    """

    def __init__(
        self, say: Callable[[FromSite], None], expired: Callable[[], None], *, every: float, seconds: float
    ) -> None:
        self._say = say
        self._expired = expired
        self._every = every
        self._seconds = seconds
        self._lock = threading.Lock()
        self._asked: dict[int, float] = {}
        self._until = time.monotonic() + seconds
        self._closed = threading.Event()
        Worker.started("lease", self._keep)

    def granted(self, number: int) -> None:
        """The question of this number was heard."""
        with self._lock:
            if (asked := self._asked.get(number)) is not None:
                self._until = max(self._until, asked + self._seconds)
                self._asked = {each: at for each, at in self._asked.items() if each > number}

    def close(self) -> None:
        """Nobody is to be ended any more."""
        self._closed.set()

    def _keep(self) -> None:
        number = 0
        while not self._closed.is_set():
            now = time.monotonic()
            if now >= self._until:
                self._expired()
                return
            number += 1
            with self._lock:
                self._asked[number] = now
            self._say(Beat(number))
            self._closed.wait(min(self._every, max(0.0, self._until - time.monotonic())))


# How two machines find out by which addresses they reach each other: each answers, and each tries the others.


_TOKEN_BYTES = 16
_SECONDS_MAX = 5.0


class Answering:
    """Says its token to whoever connects, so that nobody takes another machine for this one."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(_TOKEN_BYTES)
        self._listener = socket.create_server(("", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        Worker.started("answering", self._answer)

    def _answer(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:  # closed
                return
            with peer, contextlib.suppress(OSError):
                peer.settimeout(_SECONDS_MAX)
                peer.sendall(self.token.encode())

    def close(self) -> None:
        """Answer nobody any more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def reached(peers: Sequence[Peer], seconds: float) -> dict[str, str]:
    """The addresses of each of these by which it itself answers, with commas between, within so many seconds."""
    asked = [(peer, address) for peer in peers for address in peer.addresses]
    if not asked:
        return {}
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(len(asked), "lockstep-reaching") as pool:
        answers = list(pool.map(lambda one: _answers(one[0], one[1], deadline), asked))
    found: dict[str, list[str]] = {peer.machine: [] for peer in peers}
    for (peer, address), answered in zip(asked, answers, strict=True):
        if answered:
            found[peer.machine].append(address)
    return {machine: ",".join(addresses) for machine, addresses in found.items()}


def _answers(peer: Peer, address: str, deadline: float) -> bool:
    said = b""
    wanted = peer.token.encode()
    try:
        with socket.create_connection((address, peer.port), max(0.1, deadline - time.monotonic())) as wire:
            while len(said) < len(wanted):
                wire.settimeout(max(0.1, deadline - time.monotonic()))
                if not (piece := wire.recv(len(wanted) - len(said))):
                    break
                said += piece
    except OSError:
        return False
    return said == wanted
