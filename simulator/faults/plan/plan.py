"""A plan of faults as data: written by hand or drawn from a seed, checked before anything starts, saved, run again."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from simulator.errors import UsageError
from simulator.faults.plan.reading import (
    check_fault,
    checked,
    fault_from_mapping,
    fault_from_text,
    value_of,
    with_implied,
)
from simulator.faults.protocol import Fault, LinkFault, fields_of
from simulator.faults.values import FaultValue, ends_of
from simulator.network.link import Link
from simulator.topology import Topology, check_range, matching
from simulator.units import parse_duration

_KEYS = ("seed", "topology", "link", "fault", "heal", "progress", "files", "points")


class FaultPlan(msgspec.Struct, kw_only=True, frozen=True):
    """What shall happen to a cluster while it trains.

    Attributes:
        seed: decides every choice that the plan leaves open; see `expand`.
        topology: the tasks that the plan was written for, where it says so.
        links: conditions of the network from the start.
        faults: what strikes, in this order where several strike at the same point.
        heal: this long after the start every fault is undone; from then on each task that runs the function must make
            progress. Without it each fault lasts as long as it says.
        progress: within this time after the healing each such task announces another step, or finishes.
        files: the directory whose files count for phase `file_operation`; without it that in which tasks work.
        points: note in the journal each point of `PHASES` that a task that runs the function passes.

    Example:
        >>> plan = FaultPlan(seed=7, faults=[FaultPlan.parse_fault("kind=kill,task=worker:?,step=10..20,restart=1s")])
        >>> plan.expand(Topology(worker=3)).faults[0].task
        ('worker:1',)
    """

    seed: int = 0
    topology: Topology | None = None
    links: tuple[Link, ...] = ()
    faults: tuple[Fault, ...] = ()
    heal: str | None = None
    progress: str = "30s"
    files: str | None = None
    points: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise UsageError(f"seed={self.seed!r} is not a whole number")
        # The relay gets it as an integer of this size.
        if not -(2**63) <= self.seed < 2**64:
            raise UsageError(f"seed={str(self.seed)[:80]} is out of range; give 0 to {2**64 - 1}")
        for key in ("heal", "progress"):
            if (text := getattr(self, key)) is not None and parse_duration(text, key) == 0:
                raise UsageError(f"{key}={text} leaves no time for anything; give more, for example {key}=30s")
        # Lists read better where a plan is written in Python.
        msgspec.structs.force_setattr(self, "links", tuple(self.links))
        faults = (checked(fault, f"fault {number}") for number, fault in enumerate(self.faults, start=1))
        msgspec.structs.force_setattr(self, "faults", tuple(faults))
        names = [fault.id for fault in self.faults if fault.id is not None]
        if twice := {name for name in names if names.count(name) > 1}:
            raise UsageError(f"two faults have the id {', '.join(sorted(twice))}")

    @classmethod
    def parse_fault(cls, text: str) -> Fault:
        """Parse one fault of the command line, `kind=kill,task=worker:1,step=20,restart=1s`.

        Raises:
            UsageError: an unknown kind, key or value; the message names those that are accepted.
        """
        return fault_from_text(text)

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> FaultPlan:
        """Make a plan from the tables of a TOML or JSON file.

        Raises:
            UsageError: an unknown kind, key or value; the message names those that are accepted.
        """
        for key in values:
            if key not in _KEYS:
                raise UsageError(f"a plan has no {key!r}; it has {', '.join(_KEYS)}")
        topology, files, points = values.get("topology"), values.get("files"), values.get("points", False)
        if not isinstance(points, bool) or not isinstance(files, (str, type(None))):
            raise UsageError(f"files={files!r} is no text of a directory, or points={points!r} neither true nor false")
        try:
            shape = None if topology is None else msgspec.convert(topology, Topology, strict=True)
        except msgspec.ValidationError as error:
            raise UsageError(f"topology: {error}") from None
        return cls(
            seed=values.get("seed", 0),
            topology=shape,
            links=tuple(Link.from_mapping(table) for table in _tables(values, "link")),
            faults=tuple(
                fault_from_mapping(table, f"fault {number}")
                for number, table in enumerate(_tables(values, "fault"), start=1)
            ),
            heal=values.get("heal"),
            progress=values.get("progress", "30s"),
            files=files,
            points=points,
        )

    @classmethod
    def load(cls, path: str | Path) -> FaultPlan:
        """Read a plan from a `.toml` or `.json` file.

        Raises:
            UsageError: it cannot be read, or says something that is not understood.
        """
        path = Path(path)
        try:
            text = path.read_text()
            values = json.loads(text) if path.suffix == ".json" else _toml(text)
        except (OSError, ValueError) as error:
            raise UsageError(f"plan {path}: {error}") from None
        except RecursionError:
            raise UsageError(f"plan {path} is nested too deeply: it is tables of texts and numbers") from None
        if not isinstance(values, dict):
            raise UsageError(f"plan {path}: a plan is a table with {', '.join(_KEYS)}")
        try:
            return cls.from_mapping(values)
        except UsageError as error:
            raise UsageError(f"plan {path}: {error}") from None

    def check(self, topology: Topology) -> None:
        """Raise UsageError if the plan cannot be carried out in a cluster of this topology."""
        self.expand(topology)

    def expand(self, topology: Topology) -> FaultPlan:
        """Decide everything that is left open: ranges, drawn tasks, patterns. The result expands to itself.

        Each fault has a random stream of its own, from the seed and the fault's id (without one: what it says), so that
        taking a fault out of a plan leaves the choices of the others as they were.

        Raises:
            UsageError: a task that does not exist, or one that cannot do what the fault asks of it.
        """
        links = [link for link in self.links if link.pairs(topology)]
        faults = []
        seen: Counter[str] = Counter()
        for number, fault in enumerate(self.faults, start=1):
            words = fault.id or json.dumps(_table(fault), sort_keys=True)
            # Two faults that say the same shall not draw the same.
            stream = random.Random(f"{self.seed}/{words}/{seen[words]}")
            seen[words] += 1
            try:
                faults.append(_expanded(fault, fault.id or f"{fault.kind}-{number}", topology, stream))
                self._check_healed(faults[-1])
            except UsageError as error:
                raise UsageError(f"fault {fault.id or number} ({fault.kind}): {error}") from None
        return msgspec.structs.replace(self, topology=topology, links=tuple(links), faults=tuple(faults))

    def _check_healed(self, fault: Fault) -> None:
        """Raise UsageError if all is undone before a fault strikes."""
        if None not in (fault.time, self.heal) and parse_duration(fault.time) >= parse_duration(self.heal):
            raise UsageError(f"time={fault.time} never comes: the plan heals after {self.heal}")

    def check_timeout(self, seconds: float) -> None:
        """Raise UsageError if a run that lasts at most so long would be at its end before a fault has done its part.

        Only of what an expanded plan says by the clock.
        """
        for fault in self.faults:
            for key in ("time", "restart"):
                text = getattr(fault, key, None)
                if text is not None and parse_duration(text, key) >= seconds:
                    raise UsageError(
                        f"fault {fault.id}: {key}={text} never comes: the run has a timeout of {seconds:g} s; give a "
                        "longer timeout or a shorter time"
                    )

    def needs_relay(self, *, hosts: bool) -> bool:
        """Whether connections between tasks have to go through the relay; `hosts`: whether each has one of its own.

        Raises:
            UsageError: a fault of links cannot be had in such a network.
        """
        # Each is asked, not only up to the first that does.
        needed = [fault.needs_relay(hosts=hosts) for fault in self.faults]
        return any(needed)

    def to_mapping(self) -> dict[str, Any]:
        """The tables that `from_mapping` reads; keys with their default values are left out."""
        values: dict[str, Any] = {"seed": self.seed}
        if self.heal is not None:
            values.update(heal=self.heal, progress=self.progress)
        values |= {key: value for key in ("files", "points") if (value := getattr(self, key))}
        if self.topology is not None:
            values["topology"] = _without_defaults(msgspec.to_builtins(self.topology))
        if self.links:
            values["link"] = [_without_defaults(msgspec.to_builtins(link)) for link in self.links]
        if self.faults:
            values["fault"] = [_table(fault) for fault in self.faults]
        return values

    def to_json(self) -> str:
        """The plan as JSON, for `load`."""
        return json.dumps(self.to_mapping(), indent=2) + "\n"

    def to_toml(self) -> str:
        """The plan as TOML, for `load`."""
        lines = []
        tables = []
        for key, value in self.to_mapping().items():
            if isinstance(value, list):
                tables += [f"\n[[{key}]]\n" + _toml_lines(table) for table in value]
            elif isinstance(value, dict):
                tables.insert(0, f"\n[{key}]\n" + _toml_lines(value))
            else:
                lines.append(f"{key} = {_toml_value(value)}\n")
        return "".join([*lines, *tables])


def _expanded(fault: Fault, name: str, topology: Topology, stream: random.Random) -> Fault:
    fault = with_implied(fault)
    check_fault(fault)
    values: dict[str, Any] = {"id": name}
    fields = fields_of(type(fault))
    for field in fields:
        key = field.encode_name
        given = getattr(fault, field.name)
        wanted = fault.drawn[key] if given is None and key in fault.drawn else given
        value = _draw_value(key, wanted, value_of(fault, key), stream)
        if value != given:
            values[field.name] = value
    if "task" in fault.__struct_fields__:
        values["task"] = _drawn(fault.task, topology, stream)  # type: ignore[attr-defined]
    values["of"] = _of(fault, values.get("task", ()), topology, stream)
    expanded = msgspec.structs.replace(fault, **values)
    check_fault(expanded)
    _check_tasks(expanded, topology)
    return expanded


def _of(fault: Fault, struck: tuple[str, ...], topology: Topology, stream: random.Random) -> tuple[str, ...] | None:
    """The tasks whose progress counts: those that it strikes, or the first client if these run no function."""
    if fault.trigger not in ("step", "phase", "log") and fault.until is None:
        return None
    if fault.trigger == "log":
        return _drawn(fault.of or struck or "*", topology, stream, "of")
    if fault.of is not None:
        return _drawn(fault.of, topology, stream, "of")
    return tuple(task for task in struck if task in topology.clients) or topology.clients[:1]


def _drawn(
    given: str | Sequence[str], topology: Topology, stream: random.Random, what: str = "task"
) -> tuple[str, ...]:
    patterns = [given] if isinstance(given, str) else list(given)
    found = [task for pattern in patterns for task in _draw_tasks(pattern, topology, stream, what)]
    return tuple(task for task in topology.tasks if task in found)


def _check_tasks(fault: Fault, topology: Topology) -> None:
    for task in () if fault.trigger == "log" and fault.until is None else fault.of or ():
        if task not in topology.clients:
            others = f"let {topology.clients[0]} trigger it with of=" if topology.clients else "let a time trigger it"
            raise UsageError(f"{task} runs a server and announces no steps; {others}")
    if fault.in_task and (servers := set(fault.task) - set(topology.clients)):  # type: ignore[attr-defined]
        raise UsageError(f"{', '.join(sorted(servers))} runs a server, in which the agent cannot do this")
    if fault.in_task and set(fault.task) - set(fault.of or ()):  # type: ignore[attr-defined]
        raise UsageError("it happens inside its tasks, which therefore have to be among those of `of`")
    if fault.until is not None and fault.trigger == "step" and int(fault.until) <= int(fault.step or 0):
        raise UsageError(f"until={fault.until} is not after step={fault.step}")
    if fault.src and fault.dst:
        # Link's own check of both names; the condition does not matter.
        Link(src=fault.src, dst=fault.dst, hold=True).pairs(topology)
    elif isinstance(fault, LinkFault):
        raise UsageError("a fault of links needs src and dst")


def _tables(values: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    tables = values.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{key} is not a list of tables; in TOML each begins with [[{key}]]")
    return tables


def _without_defaults(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, False, 0)}


def _table(fault: Fault) -> dict[str, Any]:
    # Only what differs from the default is in it, so a 0 or a False there means something; and what has to be given.
    values = {key: value for key, value in msgspec.to_builtins(fault).items() if value is not None}
    if fault.phase is not None:
        values = {"at" if key == "phase" else key: value for key, value in values.items() if key != "nth"}
        values["at"] = fault.point
    return values | {key: getattr(fault, key) for key in fault.needed if getattr(fault, key) and key not in values}


def _toml(text: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _toml_lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in table.items())


def _toml_value(value: Any) -> str:
    """A scalar, a list of scalars or a flat table. The escapes of JSON are among those of TOML's basic strings."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + "}"
    # TOML requires that the delete character is escaped, which JSON does not do.
    return json.dumps(value).replace("\x7f", "\\u007f")


def _draw_value(key: str, value: object, known: FaultValue | None, stream: random.Random) -> object:
    """One value of a range, both ends included; what is no range is checked and returned as it is.

    Args:
        key: of the fault.
        value: as it was given.
        known: what the key takes; None where nothing is drawn.
        stream: decides.

    Raises:
        UsageError: the value or an end of the range is not what the key takes.
    """
    if known is None or value is None:
        return value
    first, last = ends_of(key, value, known)
    if not (isinstance(value, str) and ".." in value):
        return value
    unit = known.unit
    if unit == "count":
        return stream.randint(int(first), int(last))
    if unit == "number":
        return round(stream.uniform(first, last), 3)
    if unit == "size":
        return f"{stream.randint(int(first), int(last))}B"
    if unit == "share":
        return f"{100 * stream.uniform(first, last):.6f}%"
    # Microseconds and bytes a second are fine enough, and their text is short and exact.
    drawn = stream.uniform(first, last)
    return f"{round(drawn * 1e6)}us" if unit == "duration" else f"{max(1, round(drawn))}B/s"


def _draw_tasks(pattern: str, topology: Topology, stream: random.Random, what: str = "task") -> tuple[str, ...]:
    """The tasks that a pattern means, as of `simulator.topology.matching`; of `worker:?` one is drawn.

    Raises:
        UsageError: there is no such task, or not all of those that a range names.
    """
    one = pattern.endswith("?")
    found = matching(pattern[:-1] + "*" if one else pattern, topology.tasks)
    if not found:
        raise UsageError(f"{what}={pattern} matches no task; tasks are {', '.join(topology.tasks)}")
    check_range(pattern, found, what)
    return (stream.choice(found),) if one else found


def describe_plan(plan: FaultPlan) -> str:
    """All faults in one line, and the links that have conditions."""
    faults = (describe_fault(fault, plan.topology) for fault in plan.faults)
    return "; ".join([*faults, *(f"link {link}" for link in plan.links)]) or "no fault"


def describe_fault(fault: Fault, topology: Topology | None = None) -> str:
    """`kill worker:1 step=3`, or `partition worker:0 -> worker:1 step=2 duration=1s`.

    All that it says but its id, so that two faults that are not the same have not the same words. The tasks whose
    progress counts are left out where a plan that does not name them comes to the same. Without a topology that is seen
    only of those that are struck themselves.
    """
    mapping = FaultPlan(faults=(fault,)).to_mapping()["fault"][0]
    link = f"{mapping['src']} -> {mapping['dst']}" if "src" in mapping and "dst" in mapping else ""
    where = _joined(mapping.get("task", "")) or link
    if "of" in mapping and goes_without_saying(fault, topology):
        del mapping["of"]
    left = {key: value for key, value in mapping.items() if key not in ("kind", "id", "task", "src", "dst")}
    words = [f"{key}={_joined(value)}" for key, value in left.items()]
    # What a link carries may trigger what happens to a task.
    return " ".join(filter(None, [fault.kind, where, *words, f"on {link}" if link not in ("", where) else ""]))


def _joined(value: Any) -> str:
    return "+".join(value) if isinstance(value, (list, tuple)) else str(value)


def goes_without_saying(fault: Fault, topology: Topology | None) -> bool:
    """Whether a plan without `of` would come to the same; without a topology, whether `of` is what is struck."""
    struck = getattr(fault, "task", ())
    if topology is None:
        return fault.of in (struck, (struck,))
    try:
        with_and_without = [
            FaultPlan(faults=(each,)).expand(topology).faults[0].of
            for each in (fault, msgspec.structs.replace(fault, of=None))
        ]
    except UsageError:
        return False
    return with_and_without[0] == with_and_without[1]
