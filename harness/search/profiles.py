"""How likely each kind of fault is in a drawn plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from simulator import Topology, UsageError
from simulator.faults import LinkFault, all_kinds

__all__ = ["PROFILES", "Profile", "choose_kinds", "profile_of", "searchable"]

# These change numbers by themselves, so that a law that notices them has found nothing wrong with the program.
_CORRUPTING = ("bitflip", "nan")
# These need a host for each task; a search runs its plans on one.
_BETWEEN_HOSTS = ("loss",)

# Parts of a thousand, by the cause of unplanned stops in published training logs; see docs/search.md.
_CAUSES: tuple[tuple[int, tuple[str, ...]], ...] = (
    (650, ("kill",)),  # hard death
    (130, ("crash", "crash_loop", "restart")),  # software
    (100, ("partition", "delay", "jitter", "rate", "stall", "flap")),  # network
    (80, ("preempt",)),  # maintenance
    (20, ("pause", "slow", "late_start")),  # hang
    (14, ("torn_checkpoint",)),  # silent corruption
    (7, ("disk_full", "oom")),  # disk and memory
)


@dataclass(frozen=True)
class Profile:
    """Which kinds the faults of one plan are drawn from.

    Attributes:
        name: `swarm` or `realistic`.
        subset: each plan first enables a random subset of the kinds, all of which are then equally likely. Faults that
            hide each other when everything happens at once are thereby also tried apart (Groce and others, Swarm
            testing, ISSTA 2012).
        causes: otherwise the likelihoods, as parts of a thousand for groups of kinds; those of a group share equally.
    """

    name: str
    subset: bool
    causes: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def weights(self, kinds: Iterable[str]) -> Mapping[str, float]:
        """The likelihood of each of these kinds, in parts of those of all; equal where the profile knows none."""
        wanted = list(kinds)
        found = {
            kind: parts / len(there)
            for parts, group in self.causes
            if (there := [kind for kind in group if kind in wanted])
            for kind in there
        }
        return found or dict.fromkeys(wanted, 1.0)


PROFILES = {"swarm": Profile("swarm", subset=True), "realistic": Profile("realistic", subset=False, causes=_CAUSES)}


def profile_of(name: str) -> Profile:
    """The profile of this name.

    Raises:
        UsageError: there is none.
    """
    if name not in PROFILES:
        raise UsageError(f"profile {name!r} is unknown; profiles are {', '.join(PROFILES)}")
    return PROFILES[name]


def searchable(topology: Topology) -> tuple[str, ...]:
    """The kinds that a search can draw in this cluster: faults of links need two tasks with an address."""
    linked = len(topology.networked) > 1
    return tuple(
        name
        for name, kind in all_kinds().items()
        if name not in (*_CORRUPTING, *_BETWEEN_HOSTS) and (linked or not issubclass(kind, LinkFault))
    )


def choose_kinds(wanted: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """The kinds that were asked for, or all that can be drawn if none were.

    Raises:
        UsageError: a kind that does not exist, or that cannot be searched with here; the message names those that can.
    """
    possible = searchable(topology)
    chosen = tuple(dict.fromkeys(wanted))
    for kind in chosen:
        why = "is unknown" if kind not in all_kinds() else f"strikes links, and {topology} has none"
        if kind in _CORRUPTING:
            why = "changes numbers by itself, which every law notices"
        elif kind in _BETWEEN_HOSTS and kind in all_kinds():
            why = "strikes packets between hosts, and a search runs on one"
        if kind not in possible:
            raise UsageError(f"kind {kind!r} {why}; a search here draws from {', '.join(possible)}")
    return chosen or possible
