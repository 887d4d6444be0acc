"""The eps of dtypes, the roundings granted to a value that no rerun moves, and the factor on what reruns show."""

from __future__ import annotations

from harness.evidence.eps import EPS
from harness.evidence.observed import Observed, is_integer

K = 16.0
"""Factor on the observed spread, from a small-sample argument.

Model one element's response to the noise as normal with standard deviation s. The noise is extreme where rounding is
random: plus or minus eps on variables against a rounding error of 0.29 eps (uniform over half an eps to each side),
plus or minus 4 eps on gradients against the sum of about four such errors, 0.58 eps. A correct run therefore deviates
with a standard deviation of at most r s, r = 1/2. With m draws of s (reruns times elements of the group) the unit is
the largest of m values |N(0, s)|, which is below d s with probability (0.8 d)^m, so that a correct element is above K
units with probability (0.8 r / K)^m * E|N|^m = (1/40)^m * E|N|^m: 2e-2, 6e-4, 2.5e-5, 1.2e-6 for m = 1 to 4. A first
verdict of one pair of reruns, which is one draw, may so be wrong about an element that is by itself. An accusation
rests on four draws, on three and a second plain run, or on one and an error of 10,000 bounds.
"""

FLOOR = 8.0
"""Roundings granted to a value when the reruns happen not to move it at all.

Reporting a value takes a handful of final operations (divide by the batch, reduce over replicas, reduce over workers,
cast), each of which rounds by at most half an eps; 8 eps covers sixteen of them.
"""

STATE = 4.0
"""The same for a variable of which a process that follows the run has computed no more than one step.

What the step adds has roundings of its own, which are as much smaller than the variable's as the update is. The update
is added at the end, by one operation that rounds by half an eps, and decay or a moving average by one or two more; so 4
eps covers four such operations in the run and four in the reference. A decay of 1e-6 that is done twice is 8 eps.
"""

REPORT = 2.0
"""Eps of its own dtype granted to a value that was computed in a finer one and cast for the report.

The cast rounds by at most half an eps, in the reference and in each replica's part of the run; where the parts are then
summed in that dtype, two sums one after another (over four replicas, as a tree) round as much again. That is known of
the report without any rerun, so it is no unit that K multiplies: what rounding alone may move a rerun by, half an eps
in it and half in the reference, is taken off its spread.
"""


def eps(dtype: str) -> float:
    """The distance from 1 to the next larger number of a floating TensorFlow dtype; 0 for integers and bool."""
    return 0.0 if is_integer(dtype) else EPS[dtype]


def computed_in(value: Observed) -> float:
    """The eps in which a value was computed, as far as it tells at one step; over all steps it is the smallest.

    Programs often report `float(loss)`: a float32 result that arrives as float64. A float64 value that is a float32
    number at every step is taken for one; a value computed in float64 has bits below that and is not affected.
    """
    import numpy as np

    if value.dtype == "float64":
        with np.errstate(over="ignore"):
            narrow = value.array.astype(np.float32).astype(np.float64)
        if np.array_equal(narrow, value.array, equal_nan=True):
            return eps("float32")
    return eps(value.dtype)
