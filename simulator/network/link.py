"""What a user says about the network between tasks: which links, which conditions, from when on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from simulator.errors import UsageError
from simulator.topology import JOBS, Topology, check_range, matching
from simulator.units import parse_duration, parse_rate, parse_share, parse_size
from simulator.wire.network import Conditions

JITTER_KINDS = ("uniform", "normal", "pareto")
_FLAGS = ("stall", "hold", "blackhole", "refuse", "reset")
_SHAPES = ("delay", "jitter", "rate", "loss")
# What the kernel does to the cables between hosts; the rest is the relay's.
_OF_CABLES = ("rate", "loss", "blackhole")
_PATTERN = re.compile(rf"\*|({'|'.join(JOBS)})(:(\*|[0-9]+(-[0-9]+)?))?")
_WORDS = {"true": True, "false": False}
_CONNECTIONS_MAX = 2**32 - 1
_EXAMPLE = "src=worker,dst=ps,delay=20ms"


@dataclass(frozen=True)
class Link:
    """Conditions on the links from `src` to `dst`, and on those back unless `one_way`.

    A directed link carries the bytes that one task sends to another, on whichever side's connections: the requests of
    the connections that the sender opened and the answers on those that the receiver opened. What is not given stays
    as earlier links have it; of two that say something about the same, the later one counts.

    Args:
        src: `worker:1`, `worker` or `worker:*` for all tasks of a job, `*` for all tasks.
        dst: likewise. A task's link to itself is never meant.
        delay: time that each byte needs, `20ms`.
        jitter: how much the delay varies, `5ms`. Bytes of a connection never overtake each other.
        jitter_kind: `uniform` adds between minus and plus `jitter`; `normal` has `jitter` as its standard deviation;
            `pareto` adds `jitter` times a Pareto variable of shape 3 less its minimum, so rarely a lot. The sum is
            never less than zero.
        rate: bytes a second that all connections share on each directed link, `100MB/s` or `1Gbit/s`.
        loss: part of the packets that are lost, `1%`; TCP sends them again, later and slower. Needs hosts, that is
            `network=namespaces`; without them `stall` and pareto jitter are what loss looks like.
        stall: the link takes no bytes, so that the sender is slowed down; `True`, or for how long, `2s`.
        hold: bytes are taken, kept, and delivered in order afterwards; `True` or for how long.
        blackhole: bytes vanish and connections stay open; `True` or for how long. When it ends, connections that have
            lost something are reset, since TCP never delivers what comes after a gap. Between hosts it is packets that
            vanish, so that TCP goes on by itself when it ends.
        refuse: new connections from `src` to `dst` are refused; `True` or for how long.
        reset: connections between the two are reset, those open now at once and later ones with their first byte on
            the link; `True` or for how long.
        one_way: leave the links from `dst` to `src` alone.
        after_bytes: in force only once a link from `src` to `dst` has carried this much, `1MB`.
        after_connections: in force only with this connection that a `src` opens to a `dst`, counted from 1.

    Raises:
        UsageError: something of it is not understood; the message names the accepted form.

    Example:
        >>> Link(src="worker", dst="ps", delay="20ms", jitter="5ms", rate="100MB/s")
    """

    src: str
    dst: str
    delay: str | None = None
    jitter: str | None = None
    jitter_kind: str | None = None
    rate: str | None = None
    loss: str | None = None
    stall: bool | str = False
    hold: bool | str = False
    blackhole: bool | str = False
    refuse: bool | str = False
    reset: bool | str = False
    one_way: bool = False
    after_bytes: str | None = None
    after_connections: int | None = None

    def __post_init__(self) -> None:
        for end in ("src", "dst"):
            value: object = getattr(self, end)
            if not (isinstance(value, str) and _PATTERN.fullmatch(value)):
                raise UsageError(
                    f"{end}={value!r} names no tasks; write worker:1, worker:0-31 or worker (jobs are "
                    f"{', '.join(JOBS)}), or * for all"
                )
        if not isinstance(self.one_way, bool):
            raise UsageError(f"one_way={self.one_way!r} is neither true nor false")
        self._check_trigger()
        if self.jitter_kind is not None and self.jitter_kind not in JITTER_KINDS:
            raise UsageError(f"jitter_kind={self.jitter_kind!r} is unknown; kinds are {', '.join(JITTER_KINDS)}")
        if self.jitter_kind is not None and self.jitter is None:
            raise UsageError(f"jitter_kind={self.jitter_kind!r} needs jitter, for example jitter=5ms")
        if self.conditions == Conditions():
            raise UsageError(
                f"a link from {self.src} to {self.dst} without a condition changes nothing; give one or more of "
                f"{', '.join((*_SHAPES, *_FLAGS))}"
            )

    def _check_trigger(self) -> None:
        if self.after_bytes is not None and self.after_connections is not None:
            raise UsageError("after_bytes and after_connections together are not understood; give one of them")
        if self.after_bytes is not None and parse_size(self.after_bytes, "after_bytes") == 0:
            raise UsageError(f"after_bytes={self.after_bytes!r} is met before it starts; leave it out")
        if self.loss is not None and self.is_triggered:
            raise UsageError("loss has no trigger: packets are lost in the kernel, which counts neither; leave it out")
        number: object = self.after_connections
        if number is None:
            return
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _CONNECTIONS_MAX:
            raise UsageError(
                f"after_connections={str(number)[:80]!r} is not a whole number from 1 to {_CONNECTIONS_MAX}"
            )

    @property
    def conditions(self) -> Conditions:
        """What the relay is told, in seconds and bytes a second."""
        return Conditions(
            delay=_parsed(parse_duration, self.delay, "delay"),
            jitter=_parsed(parse_duration, self.jitter, "jitter"),
            jitter_kind=None if self.jitter is None else self.jitter_kind or "uniform",
            rate=_parsed(parse_rate, self.rate, "rate"),
            loss=_parsed(parse_share, self.loss, "loss"),
            **{name: _lasting(name, getattr(self, name)) for name in _FLAGS},
        )

    @property
    def trigger_bytes(self) -> int | None:
        """Bytes of `after_bytes`."""
        return None if self.after_bytes is None else parse_size(self.after_bytes, "after_bytes")

    @property
    def is_triggered(self) -> bool:
        """Whether the conditions wait for something."""
        return self.after_bytes is not None or self.after_connections is not None

    @property
    def of_cables(self) -> Conditions:
        """The part that the kernel does where tasks have hosts; a trigger is met to the byte by the relay alone."""
        return _selected(self.conditions, () if self.is_triggered else _OF_CABLES)

    @property
    def of_relay(self) -> Conditions:
        """The part that the relay does where tasks have hosts."""
        rest = tuple(name for name in Conditions.__struct_fields__ if self.is_triggered or name not in _OF_CABLES)
        return _selected(self.conditions, rest)

    @property
    def is_of_cables(self) -> bool:
        """Whether cables have to do a part of it, to each packet."""
        return self.of_cables != Conditions()

    def needs_relay(self, *, hosts: bool) -> bool:
        """Whether the relay has to do a part of it."""
        return not hosts or self.of_relay != Conditions()

    def check_network(self, *, hosts: bool) -> None:
        """Check that the network can do it.

        Raises:
            UsageError: packets shall be lost where there are none to lose.
        """
        if self.loss is not None and not hosts:
            raise UsageError(
                f"loss={self.loss} needs packets, so a host for each task: network=namespaces. Over loopback, stall "
                "and jitter_kind=pareto are what loss looks like to a receiver"
            )

    def check_lasting(self) -> None:
        """Check that it lasts. One that does not can only count, as the triggers of faults do.

        Raises:
            UsageError: it is to last for no time.
        """
        for name in _FLAGS:
            if isinstance(text := getattr(self, name), str) and parse_duration(text, name) == 0:
                raise UsageError(f"{name}={text} is over before it begins; give more, or {name}=true for the whole run")

    def pairs(self, topology: Topology) -> list[tuple[str, str]]:
        """The directed links from `src` to `dst`, without those back.

        Raises:
            UsageError: a task that does not exist in this topology, or no link between two different tasks.
        """
        found = [
            (src, dst)
            for src in expand(self.src, topology, "src")
            for dst in expand(self.dst, topology, "dst")
            if src != dst
        ]
        if not found:
            raise UsageError(f"there is no link from {self.src} to {self.dst} in a cluster of {topology}")
        return found

    @classmethod
    def parse(cls, text: str) -> Link:
        """Parse the form of the command line, `src=worker,dst=ps,delay=20ms`; a bare `hold` is `hold=true`.

        Raises:
            UsageError: an unknown or repeated key, or a value that is not understood.
        """
        values: dict[str, object] = {}
        for item in text.split(","):
            key, equals, value = item.strip().partition("=")
            if key in values:
                raise UsageError(f"link {text!r} has {key} twice")
            values[key] = _WORDS.get(value, value) if equals else True
        if isinstance(number := values.get("after_connections"), str) and number.isdecimal() and len(number) < 20:
            values["after_connections"] = int(number)
        return cls.from_mapping(values)

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> Link:
        """Make a link from keys and values, for example of a `[[link]]` table of TOML.

        Raises:
            UsageError: an unknown or missing key, or a value that is not understood.
        """
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise UsageError(f"a link has no {key!r}; it has {', '.join(known)}, for example {_EXAMPLE}")
        for key in ("src", "dst"):
            if key not in values:
                raise UsageError(f"a link needs {key}, for example {_EXAMPLE}")
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every value

    def __str__(self) -> str:
        """The form that `parse` reads."""
        items = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return ",".join(
            f"{key}={'true' if value is True else value}" for key, value in items if value not in (None, False)
        )


def expand(pattern: str, topology: Topology, what: str = "task") -> tuple[str, ...]:
    """The tasks of the network that a pattern means, as of `simulator.topology.matching`.

    Raises:
        UsageError: there are none, or not all that a range names.
    """
    found = matching(pattern, topology.networked)
    if not found:
        tasks = ", ".join(topology.networked) or "none, since this is one local process"
        raise UsageError(f"{what}={pattern} matches no task on the network; there are {tasks}")
    check_range(pattern, found, what)
    return found


def _selected(conditions: Conditions, names: tuple[str, ...]) -> Conditions:
    return Conditions(**{name: getattr(conditions, name) for name in names})


def _parsed(parse: Callable[[object, str], float], value: object, what: str) -> float | None:
    return None if value is None else parse(value, what)


def _lasting(name: str, value: object) -> float | None:
    if isinstance(value, bool):
        return math.inf if value else None
    return parse_duration(value, name)
