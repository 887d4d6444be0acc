"""Makes a failing case of the soak smaller, as long as the same does not hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tools.soaking.cases import Case


def shrunk(case: Case, fails: Callable[[Case], bool], tries: int = 2) -> Case:
    """The smallest case that was found.

    Args:
        case: one that fails.
        fails: whether another one does, in the same way.
        tries: how often one is run before it counts as one that does not.
    """
    while True:
        for smaller in _smaller(case):
            if any(fails(smaller) for _ in range(tries)):
                case = smaller
                break
        else:
            return case


def _smaller(case: Case) -> Iterator[Case]:
    """What is left when one thing is taken away or made plain, the most first."""
    plain = {
        "blow": None, "limit": None, "faults": (), "links": (), "machines": False, "restarts": 0,
        "network": "loopback", "program": "steps", "workers": 1, "pause": 0.0, "steps": 3,
    }  # fmt: skip
    for name, value in plain.items():
        if getattr(case, name) != value and not (name == "network" and "loss" in str(case.links)):
            changed = {name: value}
            if name == "workers":
                if case.program in ("talks", "tensorflow"):
                    continue
                changed["which"] = 0
            if name == "steps":
                changed["at"] = min(case.at, 3)
            yield msgspec.structs.replace(case, **changed)
    for number in range(len(case.faults)) if len(case.faults) > 1 else ():
        yield msgspec.structs.replace(case, faults=case.faults[:number] + case.faults[number + 1 :])
