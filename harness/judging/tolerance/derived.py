"""Bounds from reruns of the reference with rounding-sized noise: one for each element at each step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.evidence.arrays import wide
from harness.evidence.eps import EPS
from harness.evidence.lru_cache import LruCache
from harness.evidence.observed import History, Observed, begun_with, history, is_integer
from harness.evidence.trace import RunTrace
from harness.judging.tolerance.groups import are_alone, group_sizes, group_units
from harness.judging.tolerance.protocol import Bound
from harness.judging.tolerance.rounding import FLOOR, REPORT, STATE, K, computed_in, eps
from harness.judging.tolerance.whole_tensor import WholeTensor, whole

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
else:
    Floats = Any


_WINDOW = 2
"""Steps before from which an element that is by itself learns, as a share of its size, how far rounding goes. Not those
after: what rounding does to a training grows with its steps, and the first one is to keep its tight bound.
"""
_FEW = 64
_PAIR = 2
_MANY = 5
_CACHE_BYTES = 1 << 27


@dataclass(frozen=True)
class DerivedTolerance:
    """Bounds from `perturbed`, reruns of the reference with rounding-sized noise in every floating variable.

    For each element i of a value at step t::

        spread_i = max over reruns p of |x_p,i - x_ref,i|
        unit_i   = the largest spread among the elements that share i's scale, see `groups`
        bound_i  = K * unit_i + FLOOR * eps(dtype) * |x_ref,i|

    Of a variable that a process has computed which follows the run FLOOR is STATE, and counts the larger of what it was
    and what it is: an update that cancels a variable is as large as what it was. What it was is known of all steps but
    the first, and of those of which `run`, or the reference, tells what they began with.

    A unit is of one step: what was large earlier does not count. An element that is by itself has at least the spread
    that is usual by then as a share of size (the median over the array, of a small one together with the two steps
    before): by accident its own draws may be small.

    A value of a dtype coarser than the program computes in, such as a float32 loss cast to bfloat16, was rounded once
    for the report and not at each operation. With c the eps of the computation and r that of the report::

        spread_i = max(0, spread_i as above - r * |x_ref,i|)
        bound_i  = K * unit_i + (FLOOR * c + REPORT * r) * |x_ref,i|

    Nothing here depends on the number of elements. Integers keep bound 0.

    Without reruns the spread is zero, so that nothing is allowed for but the roundings of the value itself. A run that
    keeps to that is one that reruns would not accuse either.
    """

    reference: RunTrace
    perturbed: Sequence[RunTrace]
    run: RunTrace | None = None
    # What `replace` hands on where fewer are `perturbed`; of another reference these would be wrong.
    _read: dict[tuple[int, str], History] = field(default_factory=dict, repr=False, compare=False)
    _units: dict[str, dict[str, float]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The tier."""
        return "derived"

    def bound(self, observable: str, name: str, step: int | None) -> Bound:
        """The bounds at a step of the reference; 0 for a value that the reference never recorded there."""
        return self._made[observable, name, step]

    @cached_property
    def _made(self) -> LruCache[tuple[str, str, int | None], Bound]:
        return LruCache(_CACHE_BYTES, lambda key: self._bound(*key), lambda bound: int(bound.nbytes))

    def sizes(self, observable: str, name: str, step: int | None) -> Bound:
        """The magnitude of each element, of one that is zero that of its group."""
        import numpy as np

        value = self._value(observable, name, step)
        if value is None:
            return np.zeros(())
        size = _magnitude(value.array)
        if size.all():  # as of most weights, and balancing is dear
            return size
        return np.where(size > 0, size, group_sizes(size, examples=observable == "predictions"))

    def whole(self, observable: str, name: str, step: int | None, observed: Bound, before: Bound) -> WholeTensor | None:
        """See `Tolerance`."""
        import numpy as np

        value = self._value(observable, name, step)
        if value is None or value.problem or is_integer(value.dtype) or value.dtype.startswith("complex"):
            return None
        truth = wide(value.array)
        if truth.shape != observed.shape or truth.shape != before.shape:
            return None
        if not (np.isfinite(observed).all() and np.isfinite(before).all()):
            return None  # as one number it would be none
        cast, computed = self._cast(observable, name)
        # Each element rounds by itself; without reruns these are all that is allowed for.
        roundings = (1.0 if self.perturbed else self._floor(observable)) * computed + REPORT * cast
        size = np.maximum(_magnitude(value.array), np.abs(before))
        return whole(observed - before, truth - before, self._draws(observable, name, step), roundings * size)

    def rounds(self, name: str, step: int | None) -> bool:
        """See `Tolerance`."""
        return follows_gradient(self.reference, self._noisy, name, step, self._draws("variables", name, step))

    def is_moved(self, observable: str, name: str, step: int | None) -> bool:
        """Whether a rerun leaves another value there than the reference."""
        return any(draw.any() for draw in self._draws(observable, name, step))

    @property
    def can_be_held_apart(self) -> bool:
        """Whether there are as many reruns with noise as are made before anything is accused."""
        return len(self._noisy) >= _MANY

    @cached_property
    def held_apart(self) -> Sequence[tuple[RunTrace, DerivedTolerance]]:
        """Each rerun with noise, and the bounds that all other reruns make."""
        others = ([run for run in self.perturbed if run is not rerun] for rerun in self._noisy)
        return [(rerun, replace(self, perturbed=some)) for rerun, some in zip(self._noisy, others, strict=True)]

    @cached_property
    def of_pair(self) -> DerivedTolerance | None:
        """The bounds of the first two reruns with noise, where there are more: these are made if those accuse."""
        more = self._noisy[_PAIR:]
        return replace(self, perturbed=[run for run in self.perturbed if run not in more]) if more else None

    @cached_property
    def _noisy(self) -> list[RunTrace]:
        """Without those that show what other kernels do."""
        return [run for run in self.perturbed if any(each.counters.coarsest is not None for each in run.clients)]

    def describe(self) -> str:
        """One sentence for a report."""
        if not self.perturbed:
            return f"derived tier: bound = {FLOOR:g} eps of the value, with no rerun"
        runs = f"{len(self.perturbed)} perturbed rerun{'s' if len(self.perturbed) > 1 else ''} of the reference"
        return f"derived tier: bound = {K:g} x the spread of {runs} + {FLOOR:g} eps of the value"

    def _bound(self, observable: str, name: str, step: int | None) -> Bound:
        import numpy as np

        value = self._value(observable, name, step)
        if value is None:
            return np.zeros(())
        if is_integer(value.dtype) or value.problem:
            return np.zeros(value.array.shape)
        size, examples = _magnitude(value.array), observable == "predictions"
        unit = group_units(self._spread(observable, name, step), size, examples=examples)
        if are_alone(size.shape, examples=examples):
            unit = np.maximum(unit, self._usual(observable, name, step) * size)
        cast, computed = self._cast(observable, name)
        rounding = self._floor(observable) * computed + REPORT * cast
        if self._follows(observable) and (before := self._before(name, step)) is not None:
            size = np.maximum(size, before)
        with np.errstate(over="ignore"):
            return K * unit + rounding * group_sizes(size, examples=examples)

    def _follows(self, observable: str) -> bool:
        return observable == "variables" and self.reference.header.follows

    def _floor(self, observable: str) -> float:
        return STATE if self._follows(observable) else FLOOR

    def _before(self, name: str, step: int | None) -> Bound | None:
        """The magnitude of a variable before the step, which bounds that of an update by which it is cancelled."""
        found, now = self._held_before(name, step), self._value("variables", name, step)
        return None if found is None or now is None or found.shape != now.array.shape else _magnitude(found)

    def _held_before(self, name: str, step: int | None) -> np.ndarray[Any, Any] | None:
        if step is not None and (begun := self._begun.get(step, {}).get(name)) is not None:
            return begun
        earlier = self._earlier[step].get(name)
        return None if earlier is None or earlier.problem else earlier.array

    @cached_property
    def _begun(self) -> dict[int, dict[str, np.ndarray[Any, Any]]]:
        of_run = {} if self.run is None else begun_with(self.run.clients[0])
        return begun_with(self.reference.clients[0]) | of_run

    @cached_property
    def _earlier(self) -> LruCache[int | None, dict[str, Observed]]:
        """By step what variables were at the one before; of large models not even two steps are kept."""
        return LruCache(0, self._step_before, lambda held: 1)

    def _step_before(self, step: int | None) -> dict[str, Observed]:
        earlier = [each for each in self._truth("variables") if each is not None and (step is None or each < step)]
        return self._truth("variables")[earlier[-1]] if earlier else {}

    def _value(self, observable: str, name: str, step: int | None) -> Observed | None:
        return self._truth(observable).get(step, {}).get(name)

    def _truth(self, observable: str) -> History:
        return self._history(self.reference, observable)

    def _histories(self, observable: str) -> Sequence[History]:
        return [self._history(run, observable) for run in (self.reference, *self.perturbed)]

    def _history(self, run: RunTrace, observable: str) -> History:
        if (key := (id(run), observable)) not in self._read:
            self._read[key] = history(run, observable)
        return self._read[key]

    def _draws(self, observable: str, name: str, step: int | None) -> list[Bound]:
        """What each rerun differs by from the reference; 0 where that cannot be told: an overflow is no distance."""
        import numpy as np

        truth, *others = [run.get(step, {}).get(name) for run in self._histories(observable)]
        assert truth is not None
        known = [each for each in others if each is not None and _is_like(each, truth)]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = [wide(each.array) - wide(truth.array) for each in known]
        return [np.where(np.isfinite(each), each, 0.0) for each in apart]

    def _spread(self, observable: str, name: str, step: int | None) -> Bound:
        """How far the reruns are from the reference, in the shape of its value, beyond what casts for reports do."""
        import numpy as np

        truth = self._truth(observable)[step][name]
        found = np.zeros(truth.array.shape)
        for draw in self._draws(observable, name, step):
            np.maximum(found, np.abs(draw), out=found)
        cast, _ = self._cast(observable, name)
        return np.maximum(found - cast * _magnitude(truth.array), 0.0) if cast else found

    def _usual(self, observable: str, name: str, step: int | None) -> float:
        """The spread that is usual for such an array by this step, as a share of an element's size."""
        import numpy as np

        steps, value = list(self._truth(observable)), self._value(observable, name, step)
        at = steps.index(step)
        few = value is not None and value.array.size <= _FEW
        near = steps[max(0, at - _WINDOW) : at + 1] if few else [step]
        shares = []
        for each in near:
            found = self._value(observable, name, each)
            if found is None or is_integer(found.dtype) or found.problem:
                continue
            size = _magnitude(found.array)
            seen = size > 0
            shares.append(self._spread(observable, name, each)[seen] / size[seen])
        every = np.concatenate(shares) if shares else np.zeros(0)
        return float(np.median(every)) if every.size else 0.0

    def _cast(self, observable: str, name: str) -> tuple[float, float]:
        """The eps of a cast for the report alone, 0 where there is none, and that of what was computed before it."""
        own, computed = self._eps_of(observable, name), self._computed_eps
        return (own, computed) if computed is not None and own > computed else (0.0, own)

    def _eps_of(self, observable: str, name: str) -> float:
        """The eps in which a value was computed."""
        if observable not in self._units:
            # Of all names at once: a step is put together for each time that one is asked for.
            units = self._units[observable] = {}
            for found in self._truth(observable).values():
                for each, value in found.items():
                    units[each] = min(units.get(each, math.inf), computed_in(value))
        return self._units[observable].get(name, 0.0)

    @cached_property
    def _computed_eps(self) -> float | None:
        """The eps of the coarsest dtype that the program computes in, float32 at least; None where nobody noted it."""
        noted = [client.counters.coarsest for run in self.perturbed for client in run.clients]
        known = [EPS.get(dtype, 0.0) for dtype in noted if dtype is not None]
        return max([eps("float32"), *known]) if known else None


def _magnitude(array: np.ndarray[Any, Any]) -> Bound:
    """The size of each element; of one that is not finite 0."""
    import numpy as np

    size = np.abs(wide(array))
    return np.where(np.isfinite(size), size, 0.0)


def _is_like(found: Observed, truth: Observed) -> bool:
    return (found.array.shape, found.rows) == (truth.array.shape, truth.rows)


# Whether reruns change what a step adds to a variable because they change its gradient, or for another reason.
#
# Noise turns a gradient that is rounding and nothing else, and an optimizer such as Adam makes a full step of it. A
# step that a program scales by a clock, or by numbers from the operating system, is another one in each rerun as
# well. Its gradient is the same.


_PART = 0.1
"""Of its size, by which noise moves an element of a gradient that is rounding: such a one is moved by all of it."""
_MOST = 0.5


def follows_gradient(
    reference: RunTrace, reruns: Sequence[RunTrace], name: str, step: int | None, draws: Sequence[Floats]
) -> bool:
    """Whether most of these changes are in elements whose gradient changes as well, or are as large as its changes.

    True where no gradient is known. What a step adds may change by more than its gradient, as where a momentum is about
    to turn: then several reruns tell that the one is a multiple of the other.

    Args:
        reference: without noise.
        reruns: with noise.
        name: of the variable.
        step: of the reference.
        draws: what each rerun has changed of what the step adds to it.
    """
    import numpy as np

    truth = _gradient(reference, name, step)
    every = [_gradient(rerun, name, step) for rerun in reruns]
    known = [each for each in every if each is not None]
    total = sum((each * each for each in draws), np.zeros(()))
    if truth is None or not known or any(each.shape != total.shape for each in (truth, *known)):
        return True
    with np.errstate(invalid="ignore", over="ignore"):
        shift = np.max([np.abs(each - truth) for each in known], axis=0)
        moved = ~(shift < _PART * np.abs(truth)) & (shift != 0)  # also what has become no number
        if len(known) == len(draws) >= _MANY:
            moved |= _is_multiple(np.stack(draws), np.stack(known) - truth)
    return float(total[moved].sum()) >= _MOST * float(total.sum())


def _is_multiple(changes: Floats, shifts: Floats) -> Floats:
    """Of which elements the changes of all reruns, along the first axis, are one multiple of those of its gradient."""
    import numpy as np

    square = np.sum(shifts * shifts, axis=0)
    multiple = np.divide(np.sum(changes * shifts, axis=0), square, out=np.zeros_like(square), where=square > 0)
    left = np.sum((changes - multiple * shifts) ** 2, axis=0)
    return np.asarray((square > 0) & (left <= _PART**2 * np.sum(changes * changes, axis=0)))


def _gradient(run: RunTrace, name: str, step: int | None) -> Floats | None:
    """What a tape gave for a variable, which a process saw that has one replica."""
    seen = [each.seen for each in run.clients[0].steps if each.index == step and each.seen is not None]
    parts = [value.parts[0] for each in seen for value in each.gradients if value.name == name]
    return None if len(parts) != 1 else wide(parts[0].numpy())
