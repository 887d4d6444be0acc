"""Typed messages between a run and the site that is its hands on another machine, over any stream of bytes.

Framed as those of agents are. Times are seconds of the monotonic clock of whoever sends them.
"""

from __future__ import annotations

import msgspec

from simulator.wire import framing
from simulator.wire.events import Said, TaskEvent, Who
from simulator.wire.spec import TaskSpec

# -- to the site


class Grant(msgspec.Struct, frozen=True, tag=True):
    """The beat of this number was heard: the lease is good for its time from when that one was sent."""

    number: int


class ClockQuery(msgspec.Struct, frozen=True, tag=True):
    """What time is it?"""

    request: int


class Ship(msgspec.Struct, frozen=True, tag=True):
    """Files of the run's working directory: a tar archive, unpacked into a folder that is the tasks' own."""

    request: int
    archive: bytes


class Sought(msgspec.Struct, frozen=True, tag=True):
    """Is this text in this file? Proves that a directory is the same."""

    request: int
    path: str
    text: str


class Peer(msgspec.Struct, frozen=True):
    """Where another machine may be reached, and what it says to who has found it."""

    machine: str
    addresses: tuple[str, ...]
    port: int
    token: str


class Reach(msgspec.Struct, frozen=True, tag=True):
    """Which addresses of these machines can be reached from there?"""

    request: int
    peers: tuple[Peer, ...]
    seconds: float


class Open(msgspec.Struct, frozen=True, tag=True):
    """Get ready for these tasks of a run.

    Attributes:
        request: its number.
        tasks: all of them.
        networked: those whose servers need a port.
        address: by which the others reach the machine.
        launcher: how a task becomes a process, pickled.
        cwd: where it runs; empty for the folder of `Ship`.
        path: where modules are found besides, from `cwd`.
    """

    request: int
    tasks: tuple[str, ...]
    networked: tuple[str, ...]
    address: str
    launcher: bytes
    cwd: str
    path: tuple[str, ...]


class StartRelay(msgspec.Struct, frozen=True, tag=True):
    """Start a relay for the tasks there; the answer has the port of each one's listener.

    Attributes:
        request: its number.
        tasks: those that have servers.
        targets: whom an address, `host:port`, belongs to, of all tasks of the run.
        hosts: the addresses of its machines.
        seed: of the jitter.
        queue_bytes: what each direction of a connection has on its way at most.
        key: what a request to the relay has to have.
        address: of the machine, where relays of others reach this one.
        chain_key: what a request of theirs has to have.
    """

    request: int
    tasks: tuple[str, ...]
    targets: dict[str, str]
    hosts: tuple[str, ...]
    seed: int
    queue_bytes: int
    key: str
    address: str
    chain_key: str


class RelayMessage(msgspec.Struct, frozen=True, tag=True):
    """What is said to the relay, or by it, in the messages of `simulator.wire.network`; nothing: that was all."""

    data: bytes


class Probe(msgspec.Struct, frozen=True, tag=True):
    """How long does a byte take from a task there to another one and back? If `steady`, by the delay alone."""

    request: int
    src: str
    dst: str
    seconds: float
    steady: bool


class Launch(msgspec.Struct, frozen=True, tag=True):
    """Start these."""

    request: int
    specs: tuple[TaskSpec, ...]


class Send(msgspec.Struct, frozen=True, tag=True):
    """Tell an agent this, framed already."""

    who: Who
    data: bytes


class Signal(msgspec.Struct, frozen=True, tag=True):
    """Send a signal."""

    who: tuple[Who, ...]
    number: int
    to: str


class Ask(msgspec.Struct, frozen=True, tag=True):
    """How much of a message has this one sent, and not the rest?"""

    request: int
    who: Who


class EndTasks(msgspec.Struct, frozen=True, tag=True):
    """End these for certain."""

    request: int
    who: tuple[Who, ...]
    grace: float | None
    seconds: float


class Close(msgspec.Struct, frozen=True, tag=True):
    """The run is over."""

    request: int


class Off(msgspec.Struct, frozen=True, tag=True):
    """End at once, without a word, as if the power were gone."""


Network = StartRelay | RelayMessage | Probe
ToSite = (
    Grant | ClockQuery | Ship | Sought | Reach | Open | Network | Launch | Send | Signal | Ask | EndTasks | Close | Off
)


# -- from the site


class Up(msgspec.Struct, frozen=True, tag=True):
    """Here it is, with what is known of its machine.

    Attributes:
        host: its host name.
        cores: how many threads can run at once.
        memory: in bytes.
        python: version of the interpreter.
        tensorflow: version, or empty.
        code: of Lockstep itself, as a digest.
        addresses: of network interfaces other than the loopback one.
        kernel: which running kernel and network it is, the same for two that share a loopback interface.
        port: where it answers other machines, until the first run.
        token: what it says to them.
        at: its time.
    """

    host: str
    cores: int
    memory: int
    python: str
    tensorflow: str
    code: str
    addresses: tuple[str, ...]
    kernel: str
    port: int
    token: str
    at: float


class Beat(msgspec.Struct, frozen=True, tag=True):
    """It is alive, and asks for its lease."""

    number: int


class CallDone(msgspec.Struct, frozen=True, tag=True):
    """What was asked for is done.

    Attributes:
        request: its number.
        at: when.
        addresses: of `Open`: each server's; of `Reach`: those of each machine that were reached, with commas between.
        pids: of `Close`: what was left of tasks and has been killed.
        left: of `EndTasks`: those that had ended and had left something behind.
        text: of `Ask`.
        found: of `Sought`.
        seconds: of `Probe`.
        ports: of `StartRelay`: that of each task's listener.
        chained: of `StartRelay`: the port for the relays of other machines.
    """

    request: int
    at: float
    addresses: dict[str, str] = {}
    pids: tuple[int, ...] = ()
    left: tuple[Who, ...] = ()
    text: str = ""
    found: bool = False
    seconds: float = 0.0
    ports: dict[str, int] = {}
    chained: int = 0


class Refused(msgspec.Struct, frozen=True, tag=True):
    """What was asked for has failed."""

    request: int
    kind: str
    message: str
    # The operating system's number of the error, or 0.
    number: int = 0


class Wrote(msgspec.Struct, frozen=True, tag=True):
    """What a task has written into its log, or, from the beginning again, into the file of its stacks."""

    task: str
    kind: str
    data: bytes
    begins: bool = False


class Left(msgspec.Struct, frozen=True, tag=True):
    """More of a file in the folder of what tasks leave; `begins` where what came before has gone."""

    path: str
    data: bytes
    begins: bool = False


class SiteBroken(msgspec.Struct, frozen=True, tag=True):
    """Something of the site's own does not work any more."""

    what: str
    kind: str
    message: str


FromSite = Up | Beat | CallDone | Refused | TaskEvent | Wrote | Left | RelayMessage | SiteBroken

TO_SITE: msgspec.msgpack.Decoder[ToSite] = msgspec.msgpack.Decoder(ToSite)
FROM_SITE: msgspec.msgpack.Decoder[FromSite] = msgspec.msgpack.Decoder(FromSite)
# What functions are called with, and what they return, and files.
_LARGE = tuple(kind.__name__ for kind in (Said, Send, Open, Ship))


def encode(message: ToSite | FromSite) -> bytes:
    """Frame one message."""
    return framing.encode(message)


def inbox(decoder: msgspec.msgpack.Decoder[framing.Message]) -> framing.Inbox[framing.Message]:
    """Turns received bytes into messages of `TO_SITE` or `FROM_SITE`."""
    return framing.Inbox(decoder, large=_LARGE)
