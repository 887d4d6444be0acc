"""Typed messages between the parent and the relay or the keeper, framed as those of `simulator.wire.control` are.

The parent sends the messages of `ToHelper`; every one but the first carries a request number, which its answer repeats.
"""

from __future__ import annotations

import msgspec

from simulator.wire.framing import Inbox, encode

__all__ = [
    "FROM_HELPER",
    "PROBE_HOST",
    "STEADY_PROBE_HOST",
    "TO_HELPER",
    "Belongs",
    "Broken",
    "Chained",
    "Clear",
    "Conditions",
    "Count",
    "Counted",
    "Done",
    "Fired",
    "FromHelper",
    "Inbox",
    "Install",
    "LinkCounters",
    "RelayStart",
    "Remove",
    "Started",
    "ToHelper",
    "TurnedAway",
    "encode",
]


PROBE_HOST = "probe.lockstep"
"""The host of a CONNECT that is a probe: its port is the name of a task, and the relay itself answers."""
STEADY_PROBE_HOST = "steady.probe.lockstep"
"""Likewise of a probe that has the delay of the links alone, without their jitter and rate."""


class Conditions(msgspec.Struct, frozen=True):
    """What a rule asks of a directed link; `None` leaves a field to the rules before it.

    `delay` and `jitter` are seconds, `rate` is bytes a second, `loss` the probability that a packet is lost. The others
    say for how many seconds from the moment the rule takes effect the link does so; infinity is until the rule is
    removed.
    """

    delay: float | None = None
    jitter: float | None = None
    jitter_kind: str | None = None
    rate: float | None = None
    loss: float | None = None
    stall: float | None = None
    hold: float | None = None
    blackhole: float | None = None
    refuse: float | None = None
    reset: float | None = None


class LinkCounters(msgspec.Struct, frozen=True):
    """What one directed link has done so far.

    Attributes:
        src: the task that the bytes come from.
        dst: the task that they go to, or `host:port` for an address that is no task's.
        bytes: read from `src`; what a trigger counts.
        delivered: handed to `dst`. After a quiet end, `bytes == delivered + dropped`.
        dropped: swallowed by a blackhole, or still on the way when their connection was reset.
        held: kept back by a hold, then or now.
        queued: read and neither delivered nor dropped yet.
        connections: opened by `src` to `dst`, refused ones included.
        refused: of these, turned away by a condition or because nobody listens at `dst`.
        resets: connections between the two that a condition on this link has reset.
        seconds: between the first byte and the last.
        packets: sent by `src`, lost ones included; only where tasks have hosts of their own.
        lost: of these, dropped by a condition, or because the queue of a link with a rate was full.
    """

    src: str
    dst: str
    bytes: int = 0
    delivered: int = 0
    dropped: int = 0
    held: int = 0
    queued: int = 0
    connections: int = 0
    refused: int = 0
    resets: int = 0
    seconds: float = 0.0
    packets: int = 0
    lost: int = 0


class RelayStart(msgspec.Struct, frozen=True, tag=True):
    """To the relay, first.

    Attributes:
        listeners: the listening socket of each task, which the relay has inherited.
        targets: whom an address, `host:port`, belongs to.
        seed: of the jitter.
        queue_bytes: what each direction of a connection has on its way at most.
        probes: listening sockets, inherited as well, that take probes only, where the parent cannot reach the others.
        user: the user namespace that owns the tasks' hosts, inherited; `None` where they have none.
        networks: the network namespace of each task's host, inherited.
        addresses: the IP address of each host name.
        key: what a request has to have; see `simulator.helpers.relay.door`.
        chained: a listening socket for the relays of other machines, inherited; None where there are none.
        chain_key: what a request of theirs has to have.
    """

    listeners: dict[str, int]
    targets: dict[str, str]
    seed: int
    queue_bytes: int
    probes: dict[str, int] = {}
    user: int | None = None
    networks: dict[str, int] = {}
    addresses: dict[str, str] = {}
    key: str = ""
    chained: int | None = None
    chain_key: str = ""


class Chained(msgspec.Struct, frozen=True, tag=True):
    """To the relay: the servers of these tasks are on other machines; `host:port` of the relay there, for each."""

    request: int
    relays: dict[str, str]


class Belongs(msgspec.Struct, frozen=True, tag=True):
    """To the relay: this process is a task of the run, and leads a session of its own; there is no answer."""

    pid: int


class Install(msgspec.Struct, frozen=True, tag=True):
    """To a helper: put a rule on these directed links, at once or when one of them has seen enough.

    With `both`, a pair's rule also applies to the opposite link; triggers are counted on the named pair alone.
    """

    request: int
    rule: int
    pairs: list[tuple[str, str]]
    both: bool
    conditions: Conditions
    after_bytes: int | None = None
    after_connections: int | None = None

    @property
    def is_triggered(self) -> bool:
        """Whether it waits for something."""
        return self.after_bytes is not None or self.after_connections is not None


class Remove(msgspec.Struct, frozen=True, tag=True):
    """To a helper: take a rule away everywhere; links go back to what the other rules say."""

    request: int
    rule: int


class Clear(msgspec.Struct, frozen=True, tag=True):
    """To a helper: take every rule off these directed links."""

    request: int
    pairs: list[tuple[str, str]]


class Count(msgspec.Struct, frozen=True, tag=True):
    """To a helper: report the counters."""

    request: int


class Started(msgspec.Struct, frozen=True, tag=True):
    """From the relay: it accepts connections; `timer` is the kind of timers it uses."""

    timer: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """From a helper: the request has taken effect."""

    request: int


class Counted(msgspec.Struct, frozen=True, tag=True):
    """From a helper: the counters of every directed link that has seen a connection."""

    request: int
    links: list[LinkCounters]


class Fired(msgspec.Struct, frozen=True, tag=True):
    """From the relay: a trigger was met on `src` to `dst`, and its rule is in force; `at` is CLOCK_MONOTONIC."""

    rule: int
    src: str
    dst: str
    at: float
    bytes: int
    connections: int


class TurnedAway(msgspec.Struct, frozen=True, tag=True):
    """From the relay: it did not connect, for the first, second, fourth ... time.

    Attributes:
        src: the task to whose listener the request came.
        address: where it was to lead; empty if it was not read, for want of the key.
        count: how often by now.
    """

    src: str
    address: str
    count: int


class Broken(msgspec.Struct, frozen=True, tag=True):
    """From the relay, last: it ends because of this error."""

    error: str


ToHelper = RelayStart | Chained | Belongs | Install | Remove | Clear | Count
FromHelper = Started | Done | Counted | Fired | TurnedAway | Broken

TO_HELPER: msgspec.msgpack.Decoder[ToHelper] = msgspec.msgpack.Decoder(ToHelper)
FROM_HELPER: msgspec.msgpack.Decoder[FromHelper] = msgspec.msgpack.Decoder(FromHelper)
