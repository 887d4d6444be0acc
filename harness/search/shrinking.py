"""Makes a failing plan smaller while it keeps failing: delta debugging with cached outcomes and k-of-n acceptance.

The first part is Zeller and Hildebrandt's ddmin (Simplifying and isolating failure-inducing input, IEEE Transactions on
Software Engineering 28, 2002) over the faults of a plan; the second makes the values of each fault simpler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from simulator import FaultPlan, Topology, UsageError
from simulator.faults import Fault, all_kinds, goes_without_saying
from simulator.faults.protocol import fields_of
from simulator.units import parse_duration, parse_size

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)
_Changes = dict[str, Any]
# Fewer bytes than these are carried before anything is trained.
_BYTES_MIN = 1000
# The points of a save; every one has the first, and nothing need be patched into TensorFlow for it.
_PHASES = ("before_save", "in_save", "after_data_before_index", "after_save")
_AT_ONCE = "0s"


@dataclass(frozen=True)
class Acceptance:
    """A plan counts as failing if at least `k` of `n` runs fail."""

    k: int = 1
    n: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.k <= self.n:
            raise UsageError(f"{self.k}/{self.n} cannot be had; write K/N with 1 <= K <= N, for example 2/3")

    @classmethod
    def parse(cls, text: str) -> Acceptance:
        """Read `2/3`.

        Raises:
            UsageError: it is not understood.
        """
        k, slash, n = text.partition("/")
        if not (slash and k.isdecimal() and n.isdecimal()):
            raise UsageError(f"{text!r} is not understood; write K/N, for example 2/3: at least 2 of 3 runs fail")
        return cls(int(k), int(n))

    def __str__(self) -> str:
        return f"{self.k}/{self.n}"


@dataclass
class Verdicts(Generic[T]):
    """Runs candidates, and remembers what came of them, so that no run is made whose answer is known.

    Attributes:
        fails: runs a candidate so many times, and says of each run whether it failed.
        key: what makes two candidates the same.
        acceptance: how many runs have to fail. Once the answer is certain, no more are made.
        exhausted: says that there is no time left; then every candidate that is not known counts as not failing.
        at_once: how many runs may be made at the same time; none is made that one after the other would not be.
        runs: how many were made.
        cut: whether there was no time for one of them.
    """

    fails: Callable[[T, int], Sequence[bool]]
    key: Callable[[T], Hashable]
    acceptance: Acceptance = field(default_factory=Acceptance)
    exhausted: Callable[[], bool] = lambda: False
    at_once: int = 1
    runs: int = 0
    cut: bool = False
    _known: dict[Hashable, list[bool]] = field(default_factory=dict)

    def note(self, candidate: T, *, failed: bool) -> None:
        """Remember a run that was made elsewhere."""
        self._known.setdefault(self.key(candidate), []).append(failed)

    def __call__(self, candidate: T) -> bool:
        """Whether it fails in at least k of n runs."""
        seen = self._known.setdefault(self.key(candidate), [])
        k, n = self.acceptance.k, self.acceptance.n
        while (lacking := min(k - sum(seen), n - k + 1 - (len(seen) - sum(seen)))) > 0:
            if self.exhausted():
                self.cut = True
                return False
            times = min(lacking, self.at_once)
            self.runs += times
            seen.extend(self.fails(candidate, times))
        return sum(seen) >= k

    def rate(self, candidate: T) -> tuple[int, int]:
        """How many of its runs failed, and how many there were."""
        seen = self._known.get(self.key(candidate), [])
        return sum(seen), len(seen)


def minimal(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> tuple[T, ...]:
    """A part of `items`, in their order, that fails and of which every part with one item less does not.

    Args:
        items: what fails as a whole; that is not tried again.
        fails: whether some of the items, in their order, fail. Never called with none.
    """
    current = tuple(items)
    pieces = 2
    while len(current) > 1:
        smaller = next((part for part in _parts(current, pieces) if fails(part)), None)
        if smaller is not None:
            pieces = 2 if len(smaller) * pieces <= len(current) else max(2, pieces - 1)
            current = smaller
        elif pieces >= len(current):
            break
        else:
            pieces = min(len(current), 2 * pieces)
    return current


def _parts(items: tuple[T, ...], pieces: int) -> Iterator[tuple[T, ...]]:
    """Each of so many pieces, and then all without each of them."""
    bounds = [round(k * len(items) / pieces) for k in range(pieces + 1)]
    ranges = [(first, last) for first, last in itertools.pairwise(bounds) if first < last]
    yield from (items[first:last] for first, last in ranges)
    if len(ranges) > 2:
        yield from (items[:first] + items[last:] for first, last in ranges)


def shrink_plan(plan: FaultPlan, fails: Callable[[FaultPlan], bool]) -> FaultPlan:
    """The smallest plan found that fails: no fault of it can be left out, and no key made simpler.

    Args:
        plan: an expanded plan that fails.
        fails: whether a plan fails in the same way.
    """
    assert plan.topology is not None
    topology = plan.topology

    def with_faults(faults: Sequence[Fault]) -> FaultPlan:
        return msgspec.structs.replace(plan, faults=tuple(itertools.starmap(_no_later, enumerate(faults))))

    faults, changed = list(plan.faults), True
    while changed:
        # Again after each change: what was needed beside a later fault may not be beside an earlier one.
        faults, changed = list(minimal(faults, lambda part: fails(with_faults(part)))), False
        for number, fault in enumerate(faults):
            for candidate in simpler_faults(fault, topology):
                if fails(with_faults([*faults[:number], candidate, *faults[number + 1 :]])):
                    faults[number] = candidate
                    changed = True
                    break
    return with_faults(faults)


def _no_later(place: int, fault: Fault) -> Fault:
    """The fault in an incarnation that those before it can have brought."""
    if fault.incarnation is None or int(fault.incarnation) <= place:
        return fault
    return msgspec.structs.replace(fault, incarnation=place or None)


def simpler_faults(fault: Fault, topology: Topology) -> Iterator[Fault]:
    """The same fault with one thing less to it: fewer tasks, a key at its simplest value, an earlier trigger.

    Each can be carried out in the topology, leaves nothing open, and is nearer to the simplest of all, so that taking
    one after the other comes to an end.
    """
    changed = (*_fewer_tasks(fault, topology), *_simpler_values(fault), *_earlier(fault))
    for simpler in (*_plainer_kind(fault), *(msgspec.structs.replace(fault, **changes) for changes in changed)):
        try:
            yield from FaultPlan(faults=(simpler,)).expand(topology).faults
        except UsageError:  # a key may be needed by another
            continue


def _plainer_kind(fault: Fault) -> Iterator[Fault]:
    """The plainest that does the same to its tasks, at the same time."""
    if fault.plainest not in ("", fault.kind):
        plain = all_kinds()[fault.plainest]
        keys = {each.name for each in fields_of(plain)}
        yield plain(**{name: value for name, value in msgspec.structs.asdict(fault).items() if name in keys})


def _fewer_tasks(fault: Fault, topology: Topology) -> Iterator[_Changes]:
    """One struck task instead of several, and one whose progress counts, if these are not simply those struck."""
    tasks: tuple[str, ...] = getattr(fault, "task", ())
    of = fault.of or ()
    if len(tasks) > 1:
        yield from ({"task": (task,), "of": None} for task in tasks)
        yield from ({"task": (task,)} for task in tasks)
    if len(of) > 1 and not goes_without_saying(fault, topology):
        yield from ({"of": (task,)} for task in sorted(of, key=lambda task: task not in tasks))


def _simpler_values(fault: Fault) -> Iterator[_Changes]:
    for key, values in fault.searched.items():
        if getattr(fault, key) in values[1:]:
            yield {key: values[0]}
    if getattr(fault, "one_way", False):
        yield {"one_way": False}
    default = next((each.default for each in fields_of(type(fault)) if each.name == "restart"), None)
    restart = getattr(fault, "restart", None)
    if restart != default:
        yield {"restart": default}
        if default is None and parse_duration(restart, "restart") > 0:
            yield {"restart": _AT_ONCE}


def _earlier(fault: Fault) -> Iterator[_Changes]:
    """A step, a time, a place or an incarnation that comes before."""
    if fault.incarnation is not None:
        before = int(fault.incarnation) - 1
        yield {"incarnation": before if before > 0 else None}
    for key in ("step", "nth", "connections"):
        number = getattr(fault, key)
        if isinstance(number, int):
            earlier = sorted({1, number // 2, number - 1})
            yield from ({key: before} for before in earlier if 1 <= before < number)
    if fault.phase in _PHASES[1:]:
        yield {"phase": _PHASES[0]}
    if fault.bytes_ is not None:
        size = parse_size(fault.bytes_, "bytes")
        yield from ({"bytes_": f"{less}B"} for less in sorted({_BYTES_MIN, size // 2}) if _BYTES_MIN <= less < size)
