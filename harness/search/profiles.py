"""How likely each kind of fault is in a drawn plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.search.venue import HERE, SearchVenue
from simulator import Topology, UsageError
from simulator.faults import Fault, LinkFault, all_kinds

# Parts of a thousand, by the cause of unplanned stops in published training logs; see docs/search.md.
CAUSES: Mapping[str, int] = {
    "hard death": 650,
    "software": 130,
    "network": 100,
    "maintenance": 80,
    "hang": 20,
    "silent corruption": 14,
    "disk and memory": 7,
}


@dataclass(frozen=True)
class Profile:
    """Which kinds the faults of one plan are drawn from.

    Attributes:
        name: `situations`, `swarm` or `realistic`.
        subset: each plan first enables a random subset of the kinds, all of which are then equally likely. Faults that
            hide each other when everything happens at once are thereby also tried apart (Groce and others, Swarm
            testing, ISSTA 2012).
        steered: plans are steered by what runs have shown; the rest is for those that are drawn beside.
        causes: otherwise the likelihoods of causes, as parts of a thousand; kinds of one cause share equally.
    """

    name: str
    subset: bool
    steered: bool = False
    causes: Mapping[str, int] = field(default_factory=dict)

    def weights(self, kinds: Iterable[str]) -> Mapping[str, float]:
        """The likelihood of each of these kinds, in parts of those of all; equal where the profile knows none."""
        wanted = list(kinds)
        found = {
            kind: parts / len(there)
            for cause, parts in self.causes.items()
            if (there := [kind for kind in wanted if all_kinds()[kind].cause == cause])
            for kind in there
        }
        return found or dict.fromkeys(wanted, 1.0)


PROFILES = {
    "situations": Profile("situations", subset=True, steered=True),
    "swarm": Profile("swarm", subset=True),
    "realistic": Profile("realistic", subset=False, causes=CAUSES),
}


def profile_of(name: str) -> Profile:
    """The profile of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in PROFILES:
        raise UsageError(f"profile {name!r} is unknown; profiles are {', '.join(PROFILES)}")
    return PROFILES[name]


def searchable(topology: Topology, room: SearchVenue = HERE) -> tuple[str, ...]:
    """The kinds that a search can draw in this cluster, there."""
    return tuple(name for name, kind in all_kinds().items() if not _why_not(kind, topology, room))


def _why_not(kind: type[Fault], topology: Topology, room: SearchVenue) -> str:
    """Why a kind cannot be drawn; empty if it can."""
    if kind.unsearched:
        return kind.unsearched
    if issubclass(kind, LinkFault) and len(topology.networked) < 2:
        return f"strikes links, and {topology} has none"
    if kind.of_machines and not room.lost_max:
        return (
            "takes machines away, and the job cannot go on without one: it needs --machines, several of them, and a "
            "restart policy"
        )
    if room.machines and not kind.anywhere:
        return "acts on processes or files of this machine, and the tasks are on others"
    return ""


def choose_kinds(wanted: Iterable[str], topology: Topology, room: SearchVenue = HERE) -> tuple[str, ...]:
    """The kinds that were asked for, or if none were, all that can be drawn and that such a cluster can feel.

    Raises:
        UsageError: a kind that does not exist, or that cannot be searched with here; the message names those that can.
    """
    possible = searchable(topology, room)
    chosen = tuple(dict.fromkeys(wanted))
    for kind in chosen:
        known = all_kinds().get(kind)
        if kind not in possible:
            why = "is unknown" if known is None else _why_not(known, topology, room)
            raise UsageError(f"kind {kind!r} {why}; a search here draws from {', '.join(possible)}")
    return chosen or tuple(kind for kind in possible if len(topology.tasks) > 1 or not all_kinds()[kind].felt_by_peers)
