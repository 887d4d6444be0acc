"""One directed link inside the relay: the rules on it, what they add up to, and what it has carried."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from simulator.helpers.relay.timers import Timers
from simulator.helpers.rules import Rules
from simulator.wire.network import Conditions, LinkCounters

READ_BYTES_MAX = 256 * 1024
# A chunk on a slow link is what it sends in this time, but no less than one Ethernet packet carries.
_CHUNK_SECONDS = 0.005
_CHUNK_BYTES_MIN = 1448
# What a slow link may have taken ahead of its rate; a switch queues tens of milliseconds as well.
_BACKLOG_SECONDS = 0.05
_PARETO_SHAPE = 3.0
_FLAGS = ("stall", "hold", "blackhole", "refuse", "reset")


@dataclass
class Tally:
    """Bytes of one directed link."""

    bytes: int = 0
    delivered: int = 0
    dropped: int = 0
    held: int = 0
    first: float = 0.0
    last: float = 0.0

    def took(self, count: int, now: float) -> None:
        """Count bytes read from the sender."""
        if not self.bytes:
            self.first = now
        self.bytes += count
        self.last = now


@dataclass(frozen=True)
class Trigger:
    """Calls `fire` once the link has carried so many bytes or seen so many connections."""

    rule: int
    after_bytes: int | None
    after_connections: int | None
    fire: Callable[[], None]


class RelayedConnection(Protocol):
    """A connection between two tasks, of which a link is one direction."""

    def reset(self, by: Directed) -> None:
        """End it as if a host on the way had."""


class Flow(Protocol):
    """One direction of a connection, which a link carries."""

    tally: Tally
    gap: bool

    @property
    def connection(self) -> RelayedConnection:
        """Whose direction it is."""

    @property
    def queued(self) -> int:
        """Bytes that it holds back."""

    def flush(self) -> None:
        """Send what may go on now."""

    def update_reading(self) -> None:
        """Read, or do not, as the rules have it now."""


@dataclass
class Directed:
    """State of the link from `src` to `dst`; `plain` when it has nothing to do to the bytes."""

    src: str
    dst: str
    timers: Timers
    random: random.Random
    rules: Rules = field(default_factory=Rules)
    triggers: list[Trigger] = field(default_factory=list)
    pumps: set[Flow] = field(default_factory=set)
    tally: Tally = field(default_factory=Tally)
    connections: int = 0
    refused: int = 0
    resets: int = 0
    delay: float = 0.0
    jitter: float = 0.0
    jitter_kind: str = "uniform"
    rate: float = 0.0
    stalling: bool = False
    holding: bool = False
    black: bool = False
    refusing: bool = False
    resetting: bool = False
    plain: bool = True
    # When a link with a rate has sent all that it has taken: its token bucket.
    free_at: float = 0.0
    _waiting: list[asyncio.Future[None]] = field(default_factory=list)

    # -- what happens to bytes

    def read_limit(self) -> int:
        """How many bytes to read at most, so that chunks fit the rate and a trigger is met to the byte."""
        limit = READ_BYTES_MAX
        if self.rate:
            limit = min(limit, max(_CHUNK_BYTES_MIN, int(self.rate * _CHUNK_SECONDS)))
        for trigger in self.triggers:
            if trigger.after_bytes is not None:
                limit = min(limit, max(1, trigger.after_bytes - self.tally.bytes))
        return limit

    def due(self, now: float, count: int, steady: bool) -> float:
        """When `count` bytes read at `now` arrive; takes their share of the rate, unless `steady`."""
        sent = now
        if self.rate and not steady:
            sent = self.free_at = max(self.free_at, now) + count / self.rate
        return sent + self.draw(steady)

    def draw(self, steady: bool = False) -> float:
        """The delay of the next chunk, in seconds; if `steady`, without jitter."""
        if steady or not self.jitter:
            return self.delay
        if self.jitter_kind == "normal":
            extra = self.random.gauss(0.0, self.jitter)
        elif self.jitter_kind == "pareto":
            extra = self.jitter * (self.random.paretovariate(_PARETO_SHAPE) - 1.0)
        else:
            extra = self.random.uniform(-self.jitter, self.jitter)
        return max(0.0, self.delay + extra)

    def read_again_at(self) -> float:
        """When the rate lets the next bytes be read."""
        return self.free_at - _BACKLOG_SECONDS if self.rate else 0.0

    # -- connections

    @property
    def is_shut(self) -> bool:
        """Whether a new connection has to wait: nothing gets through."""
        return self.stalling or self.holding or self.black

    async def wait_open(self) -> None:
        """Come back when something gets through."""
        while self.is_shut:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    def connected(self) -> None:
        """Count a connection that `src` opens to `dst`."""
        self.connections += 1
        self.check_triggers()

    # -- rules

    def check_triggers(self) -> None:
        """Fire what has been met."""
        for trigger in list(self.triggers):
            by_bytes = trigger.after_bytes is not None and self.tally.bytes >= trigger.after_bytes
            by_connections = trigger.after_connections is not None and self.connections >= trigger.after_connections
            if by_bytes or by_connections:
                self.triggers.remove(trigger)
                trigger.fire()

    def activate(self, rule: int, conditions: Conditions) -> None:
        """Put a rule in force from now on."""
        self.rules.put(rule, conditions)
        self.changed()

    def remove(self, rule: int) -> None:
        """Forget a rule, whether it is in force or waits for its trigger."""
        self.triggers = [trigger for trigger in self.triggers if trigger.rule != rule]
        if self.rules.drop(rule):
            self.changed()

    def clear(self) -> None:
        """Forget every rule."""
        self.triggers.clear()
        self.rules.clear()
        self.changed()

    def changed(self) -> None:
        """Work out anew what the rules add up to, and act on what has begun or ended."""
        was_black, was_holding = self.black, self.holding
        self._merge()
        if self.resetting:
            for pump in list(self.pumps):
                pump.connection.reset(self)
        if was_black and not self.black:
            # TCP never delivers what comes after a gap.
            for pump in [pump for pump in self.pumps if pump.gap]:
                pump.connection.reset(self)
        for pump in list(self.pumps):
            if self.holding and not was_holding:
                pump.tally.held += pump.queued
            pump.flush()
            pump.update_reading()
        if not self.is_shut:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def _merge(self) -> None:
        """Read the rules; looks again when the earliest of them ends."""
        self.delay = self.rules.last("delay") or 0.0
        self.rate = self.rules.last("rate") or 0.0
        self.jitter, self.jitter_kind = self.rules.shape()
        self.stalling = self.rules.lasts("stall")
        self.holding = self.rules.lasts("hold")
        self.black = self.rules.lasts("blackhole")
        self.refusing = self.rules.lasts("refuse")
        self.resetting = self.rules.lasts("reset")
        self.plain = not (self.delay or self.jitter or self.rate or self.holding or self.black or self.resetting)
        if end := self.rules.next_end(_FLAGS):
            self.timers.at(end, self.changed)

    def counters(self) -> LinkCounters:
        """What the link has done so far."""
        return LinkCounters(
            src=self.src,
            dst=self.dst,
            bytes=self.tally.bytes,
            delivered=self.tally.delivered,
            dropped=self.tally.dropped,
            held=self.tally.held,
            queued=sum(pump.queued for pump in self.pumps if pump.tally is self.tally),
            connections=self.connections,
            refused=self.refused,
            resets=self.resets,
            seconds=self.tally.last - self.tally.first,
        )
