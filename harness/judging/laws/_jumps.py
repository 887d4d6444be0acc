"""Jumps: where rounding moves a right run beyond bounds that were made from a few draws of it.

A bound takes the answer of an element to rounding as normal. But where a gradient is all rounding, Adam makes a full
step of it in the one direction or the other, and a few draws may all leave its sign as it is. Of many such elements the
run turns some. So does each rerun with noise if it is held against the bounds of the others, and reruns are right: what
they do as well, as often and as far, accuses nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.comparing import errors
from harness.evidence.observed import History, history
from harness.judging.laws._whole_tensors import WholeTensors
from harness.judging.laws.protocol import Case, Finding
from harness.judging.tolerance import DerivedTolerance

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Floats = Any


_MORE = 2.0
"""How many times as many, and as large, as those of the reruns the jumps of a right run may be: these are few draws."""

Found = tuple[Finding, float]
"""One, and its ratio."""
At = tuple[int | None, str]


@dataclass
class _Seen:
    """What reruns show at a step.

    Attributes:
        most: how many elements of all values one of them has beyond the bounds that the others make.
        furthest: by name how far off an element of theirs is.
        wholes: of each the ratios of those wholes that are beyond.
    """

    most: int = 0
    furthest: dict[str, float] = field(default_factory=dict)
    wholes: list[list[float]] = field(default_factory=list)


@dataclass
class Jumps:
    """Those of one observable of a case, of which `wholes` are the run's."""

    case: Case
    observable: str
    wholes: WholeTensors

    def at(self, found: Found) -> At:
        """The step and the name of the value that a finding is of."""
        return found[0].step, found[0].variable or self.observable

    def of_elements(self, findings: Sequence[Found]) -> list[Found]:
        """Of findings on elements, in the order of steps, those that are jumps.

        Of each step those where no element is further off than one of the same value in a rerun, if one of the reruns
        has as many.
        """
        return [jump for step, found, seen in self._by_step(findings) for jump in self._elements(step, found, seen)]

    def of_wholes(self, findings: Sequence[Found]) -> list[Found]:
        """Of findings on wholes, in the order of steps, those that are jumps: of a step all, or none."""
        jumps = []
        for step, found, seen in self._by_step(findings):
            most, furthest = max(map(len, seen.wholes)), max(itertools.chain([0.0], *seen.wholes))
            if len(found) <= _MORE * most and all(ratio <= _MORE * furthest for _, ratio in found):
                jumps += found
                for name in {self.at(each)[1] for each in found}:
                    self.wholes.let_off(step, name, _MORE * furthest)
        return jumps

    def _by_step(self, findings: Sequence[Found]) -> Iterator[tuple[int | None, list[Found], _Seen]]:
        """By step, with what reruns show, the findings that know a bound."""
        tolerance = self.case.tolerance
        if isinstance(tolerance, DerivedTolerance) and tolerance.can_be_held_apart:
            for step, some in itertools.groupby(findings, key=lambda each: each[0].step):
                if found := [each for each in some if each[0].bound]:
                    if step not in self._known:
                        self._known[step] = self._seen(step, tolerance)
                    yield step, found, self._known[step]

    @cached_property
    def _known(self) -> dict[int | None, _Seen]:
        return {}

    def _elements(self, step: int | None, found: Sequence[Found], seen: _Seen) -> Sequence[Found]:
        alike, count = [], 0
        for each in found:
            name = each[0].variable or self.observable
            error, bound = self._error(self._run, step, name), self.case.tolerance.bound(self.observable, name, step)
            if error.max() <= _MORE * seen.furthest.get(name, 0.0):
                alike.append(each)
                count += int((error > bound).sum())
        return alike if count <= _MORE * seen.most else ()

    def _seen(self, step: int | None, tolerance: DerivedTolerance) -> _Seen:
        seen = _Seen()
        for rerun, others in tolerance.held_apart:
            values, count = history(rerun, self.observable), 0
            for name in self._reference.get(step, {}):
                error = self._error(values, step, name)
                count += int((error > others.bound(self.observable, name, step)).sum())
                seen.furthest[name] = max(seen.furthest.get(name, 0.0), float(error.max()))
            seen.most = max(seen.most, count)
            held = (self.wholes.held(step, name, value, others) for name, value in values.get(step, {}).items())
            seen.wholes.append([each.ratio for each in held if each is not None and each.ratio > 1])
        return seen

    def _error(self, run: History, step: int | None, name: str) -> Floats:
        """How far off each element is; 0 where that cannot be told."""
        import numpy as np

        truth, found = self._reference[step][name], run.get(step, {}).get(name)
        if found is None or found.array.shape != truth.array.shape or not truth.array.size:
            return np.zeros((1,))
        error = errors(found.array, truth.array)
        return np.where(np.isfinite(error), error, 0.0)

    @cached_property
    def _run(self) -> History:
        return history(self.case.run, self.observable, aligned_to=self.case.reference)

    @cached_property
    def _reference(self) -> History:
        return history(self.case.reference, self.observable)
