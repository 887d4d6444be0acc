"""Whose fault a wrong step is: each replica's part of it is computed again, from that replica's own rows and draws.

A replica contributes gradients. One replica that has what a replica of the run had computes what that should have
contributed, but for a factor, since a script divides by the number of replicas where it likes. The factor is the same
for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.deposit import DepositJob
from harness.evidence.trace import Seen
from harness.live.findings import StepFinding
from harness.live.state import replicas_of

if TYPE_CHECKING:
    import numpy as np

    _Gradient = np.ndarray[Any, Any]

_APART = 100.0
"""So many times farther than any other replica is one from what it should contribute."""
_ROUNDING = 1e-4
"""Of its largest element a gradient may be so far from another computation of it."""


_WRONG = "contributed another gradient of {} than one device computes from the same rows"
_RIGHT = (
    "each replica's gradients are those that one device computes from its rows, but for a factor that all have: how "
    "they are scaled, put together or applied is wrong"
)


def contributed(jobs: Sequence[tuple[DepositJob, Seen]]) -> dict[str, dict[str, _Gradient]]:
    """The gradients of each replica, by its name."""
    found: dict[str, dict[str, _Gradient]] = {}
    for job, seen in jobs:
        for local, replica in enumerate(replicas_of(job)):
            parts = {value.name: value.parts for value in seen.gradients}
            found[replica] = {name: part[local].numpy() for name, part in parts.items() if local < len(part)}
    return found


def contributor(
    found: Mapping[str, Mapping[str, _Gradient]], should: Callable[[str], Mapping[str, _Gradient]]
) -> Iterator[StepFinding]:
    """The replica whose fault a wrong step is, or that it is the fault of none; nothing where nobody knows.

    Args:
        found: as of `contributed`.
        should: as of `outlier`.
    """
    if (known := outlier(found, should)) is not None:
        replica, name = known
        question, text = ("scale, reduction or update", _RIGHT) if replica is None else ("computation", _WRONG)
        yield StepFinding(question, "contributions", text.format(name), replica=replica)


def outlier(
    found: Mapping[str, Mapping[str, _Gradient]], should: Callable[[str], Mapping[str, _Gradient]]
) -> tuple[str | None, str] | None:
    """The replica that has contributed what it should not have, and to the gradient of which variable.

    Where each has contributed what it should, none, and the variable where that is the least exact. Else nobody knows.

    Args:
        found: as of `contributed`.
        should: computes what a replica should have contributed, but for a factor.
    """
    far = {replica: _farthest(gradients, should(replica)) for replica, gradients in found.items()}
    if len(far) < 2:
        return None
    (replica, (most, name)), (_, (second, _)) = sorted(far.items(), key=lambda each: each[1][0], reverse=True)[:2]
    if not all(variable for _, variable in far.values()):  # of one no gradient was seen
        return None
    if most <= _ROUNDING:
        return None, name
    return None if most <= _APART * second else (replica, name)


def _farthest(found: Mapping[str, _Gradient], computed: Mapping[str, _Gradient]) -> tuple[float, str]:
    """How far that variable's gradient is off which is the farthest, of its largest element, and the variable."""
    import numpy as np

    pairs = {
        name: (found[name].astype(np.float64), computed[name].astype(np.float64))
        for name in found
        if name in computed and found[name].shape == computed[name].shape and computed[name].size
    }
    with np.errstate(all="ignore"):
        ratios = [
            (one.reshape(-1) / other.reshape(-1))[np.abs(other.reshape(-1)) > _ROUNDING * np.abs(other).max()]
            for one, other in pairs.values()
        ]
        factor = np.nanmedian(np.concatenate(ratios)) if ratios else 1.0
        far = {
            name: float(np.abs(one - factor * other).max() / np.abs(factor * other).max())
            for name, (one, other) in pairs.items()
            if other.any()
        }
    return max(((each if np.isfinite(each) else math.inf, name) for name, each in far.items()), default=(0.0, ""))
