"""How far a run may be from its reference: not at all, or by a bound computed from reruns of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from harness.evidence.observed import OBSERVABLES, Observed, history, is_integer
from harness.evidence.reference import Reference
from harness.evidence.trace import RunTrace

if TYPE_CHECKING:
    import numpy as np

__all__ = ["FLOOR", "REPORT", "Derived", "Exact", "K", "Tolerance", "eps", "tolerance_of"]

K = 16.0
"""Factor on the observed spread, from a small-sample argument.

The reruns are two opposite pairs; as far as a training responds linearly, the second of a pair adds nothing, so model
one element's response as normal with standard deviation s and the unit as the larger of two draws of |N(0, s)|: it
exceeds 0.125 s with probability 0.99 (P(|N| < 0.125) = 0.0995). The noise is extreme where rounding is random: plus or
minus eps on variables against a rounding error of 0.29 eps (uniform over half an eps to each side), plus or minus 4 eps
on gradients against the sum of about four such errors, 0.58 eps. A correct run therefore deviates with a standard
deviation of at most s / 2 and stays within 4 times that with probability 0.99994: 4 * 0.5 s / 0.125 s = 16 units.
"""

FLOOR = 8.0
"""Roundings granted to a value when the reruns happen not to move it at all.

Reporting a value takes a handful of final operations (divide by the batch, reduce over replicas, reduce over workers,
cast), each of which rounds by at most half an eps; 8 eps covers sixteen of them.
"""

REPORT = 2.0
"""Eps of its own dtype granted to a value that was computed in a finer one and cast for the report.

The cast rounds by at most half an eps, in the reference and in each replica's part of the run; where the parts are then
summed in that dtype, two sums one after another (over four replicas, as a tree) round as much again. That is known of
the report without any rerun, so it is no unit that K multiplies: what rounding alone may move a rerun by, half an eps
in it and half in the reference, is taken off its spread.
"""

_EPS = {
    "bfloat16": 2.0**-7,
    "float16": 2.0**-10,
    "float32": 2.0**-23,
    "complex64": 2.0**-23,
    "float64": 2.0**-52,
    "complex128": 2.0**-52,
}


def eps(dtype: str) -> float:
    """The distance from 1 to the next larger number of a floating TensorFlow dtype; 0 for integers and bool."""
    return 0.0 if is_integer(dtype) else _EPS[dtype]


class Tolerance(Protocol):
    """The largest permitted difference, in max-norm, of one observable's value from the reference's."""

    @property
    def name(self) -> str:
        """The tier: `exact` or `derived`."""

    def bound(self, observable: str, name: str, step: int | None) -> float:
        """The bound for a value at a step of the reference (from 1), or at the end when `step` is None."""

    def describe(self) -> str:
        """One sentence for a report."""


@dataclass(frozen=True)
class Exact:
    """Bit for bit up to the sign of zero, for programs whose intermediate values are all exactly representable."""

    @property
    def name(self) -> str:
        """The tier."""
        return "exact"

    def bound(self, observable: str, name: str, step: int | None) -> float:
        """Zero."""
        return 0.0

    def describe(self) -> str:
        """One sentence for a report."""
        return "exact tier: every value must equal the reference's (bound 0)"


@dataclass(frozen=True)
class Derived:
    """Bounds from `perturbed`, reruns of the reference with rounding-sized noise in every floating variable.

    For each observable and name, with the max-norm over elements, finite ones only::

        spread_t = max over reruns p of |x_p,t - x_ref,t|
        unit_t   = max of spread_1 .. spread_t          (at the end: of all steps and the end)
        bound_t  = K * unit_t + FLOOR * eps(dtype) * |x_ref,t|

    A value of a dtype coarser than the program computes in, such as a float32 loss cast to bfloat16, was rounded once
    for the report and not at each operation. With c the eps of the computation and r that of the report::

        spread_t = max(0, spread_t as above - r * |x_ref,t|)
        bound_t  = K * unit_t + (FLOOR * c + REPORT * r) * |x_ref,t|

    Nothing here depends on the number of elements. Integers keep bound 0.

    Raises:
        ValueError: no rerun was given.
    """

    reference: RunTrace
    perturbed: Sequence[RunTrace]

    def __post_init__(self) -> None:
        """Refuse to derive a bound from nothing."""
        if not self.perturbed:
            raise ValueError("a derived bound needs at least one perturbed rerun of the reference; `verify` makes four")

    @property
    def name(self) -> str:
        """The tier."""
        return "derived"

    def bound(self, observable: str, name: str, step: int | None) -> float:
        """The bound at a step of the reference; 0 for a value that the reference never recorded there."""
        return self._bounds.get((observable, name, step), 0.0)

    def describe(self) -> str:
        """One sentence for a report."""
        runs = f"{len(self.perturbed)} perturbed rerun{'s' if len(self.perturbed) > 1 else ''} of the reference"
        return f"derived tier: bound = {K:g} x the spread of {runs} + {FLOOR:g} eps of the value"

    @cached_property
    def _bounds(self) -> dict[tuple[str, str, int | None], float]:
        bounds: dict[tuple[str, str, int | None], float] = {}
        for observable in OBSERVABLES:
            reruns = [history(run, observable) for run in self.perturbed]
            reference = history(self.reference, observable)
            resolution = _resolutions(reference)
            computed = self._computed_eps
            units: dict[str, float] = {}
            for step, values in reference.items():
                for name, value in values.items():
                    others = [rerun[step][name] for rerun in reruns if name in rerun.get(step, {})]
                    unit, size = resolution[name], _norm(value.array)
                    # Of the report alone, where that is coarser than the computation.
                    cast = unit if computed is not None and unit > computed else 0.0
                    spread = max([0.0, *(_spread(value, other) - cast * size for other in others)])
                    units[name] = max(units.get(name, 0.0), spread)
                    rounding = FLOOR * unit if not cast or computed is None else FLOOR * computed + REPORT * cast
                    bounds[observable, name, step] = K * units[name] + rounding * size
        return bounds

    @property
    def _computed_eps(self) -> float | None:
        """The eps of the coarsest dtype that the program computes in, float32 at least; None where nobody noted it."""
        noted = [client.counters.coarsest for run in self.perturbed for client in run.clients]
        known = [_EPS.get(dtype, 0.0) for dtype in noted if dtype is not None]
        return max([eps("float32"), *known]) if known else None


def _resolutions(reference: Mapping[int | None, Mapping[str, Observed]]) -> dict[str, float]:
    """The eps in which each value was computed.

    Programs often report `float(loss)`: a float32 result that arrives as float64. A float64 value that is a float32
    number at every step is taken for one; a value computed in float64 has bits below that and is not affected.
    """
    import numpy as np

    resolution: dict[str, float] = {}
    for values in reference.values():
        for name, value in values.items():
            unit = eps(value.dtype)
            if value.dtype == "float64":
                with np.errstate(over="ignore"):
                    narrow = value.array.astype(np.float32).astype(np.float64)
                if np.array_equal(narrow, value.array, equal_nan=True):
                    unit = eps("float32")
            resolution[name] = min(unit, resolution.get(name, unit))
    return resolution


def _spread(value: Observed, other: Observed) -> float:
    """Max-norm of the difference where both are finite; a rerun that overflows must not make the bound infinite."""
    if is_integer(value.dtype) or (value.array.shape, value.rows) != (other.array.shape, other.rows):
        return 0.0
    import numpy as np

    with np.errstate(invalid="ignore", over="ignore"):
        return _norm(_wide(other.array) - _wide(value.array))


def _norm(array: np.ndarray[Any, Any]) -> float:
    import numpy as np

    size = np.abs(_wide(array))
    return float(np.max(size, initial=0.0, where=np.isfinite(size)))


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def tolerance_of(reference: Reference) -> Tolerance:
    """Exact without reruns, else derived from them."""
    return Derived(reference.trace, reference.perturbed) if reference.perturbed else Exact()
