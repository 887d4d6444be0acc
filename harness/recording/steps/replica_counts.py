"""Sums of all replicas that count calls: one device calls once where R replicas call R times.

The mean of a metric is a total divided by a count, each a sum over replicas. A count of examples is that of one device.
A count of calls is R times it, and so is the total: together they are the same mean, but one more call of one device
weighs more beside what R replicas have counted. So such sums are set to what one device would have had.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.steps import EvidenceReader, HeldVariable, Standing
from harness.recording.steps.protocol import Variables
from harness.recording.steps.state import copies_of, values_of

if TYPE_CHECKING:
    import numpy as np

    Values = list[np.ndarray[Any, Any]]
else:
    Values = Any

_Held = Sequence[tuple[EvidenceReader, HeldVariable]]
_Key = tuple[str, int]
_MEAN = ("total", "count")
"""The variables of a Mean."""


class ReplicaCounts:
    """What variables are set to for the replicas of a process, and which sums count calls."""

    def __init__(self, standing: Standing) -> None:
        self._replicas = standing.replicas
        self._as_they_are = not standing.averages
        # Of each sum what the run had when a step began, and what was set.
        self._begun: dict[_Key, tuple[float, float]] = {}
        self._metrics: set[_Key] = set()

    def set_to(self, variables: Variables, held: Mapping[_Key, _Held]) -> Iterator[tuple[Any, Values]]:
        """Each variable that can be set, with its values: one for all copies, or one for each."""
        found = []
        for named, variable in variables:
            key = named.name, named.number
            values = values_of(held.get(key, []), self._replicas, as_they_are=self._as_they_are)
            if values and all(value.shape == tuple(variable.shape) for value in values):
                summed = _summed(held[key], values[0]) if self._replicas == 1 else 0
                found.append((key, variable, values, summed))
                if summed:
                    self._learn(key, variable, values[0], summed)
        for key, variable, values, summed in found:
            yield variable, self._of_one(key, values, summed) if summed else values

    def _learn(self, key: _Key, variable: Any, value: Any, replicas: int) -> None:
        """Compare what a sum has grown by since it was set, in the run and here."""
        before = self._begun.get(key, (0.0, 0.0))  # in the first step it begins with nothing
        run, here = float(value) - before[0], float(copies_of(variable)[0].numpy()) - before[1]
        if here and run == replicas * here:
            self._metrics.add(_metric(key))

    def _of_one(self, key: _Key, values: Values, replicas: int) -> Values:
        """What one device would have had."""
        counts_calls = _metric(key) in self._metrics
        found = [(value / replicas).astype(value.dtype) for value in values] if counts_calls else values
        self._begun[key] = float(values[0]), float(found[0])
        return found


def _summed(held: _Held, value: np.ndarray[Any, Any]) -> int:
    """Of how many replicas a floating scalar is the sum; 0 where it is something else."""
    copies = [stored for _, each in held if each.how == "sum" for stored in each.copies]
    if len(copies) < 2 or value.shape or value.dtype.kind != "f":
        return 0
    return len(copies)


def _metric(key: _Key) -> _Key:
    """Whose it is: Keras 3 has `loss/total` and `loss/count`, and tf_keras numbers those of one name.

    What else there is without the name of an owner is by itself.
    """
    owner, _, name = key[0].partition(":")[0].rpartition("/")
    return (owner if owner or name in _MEAN else name), key[1]
