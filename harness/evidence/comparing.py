"""Comparing arrays element by element, within a bound or bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.evidence.observed import Observed, is_integer, show_rows
from harness.evidence.trace import Array

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Comparison:
    """The worst element of one comparison; numbers are None and `text` says why when the arrays cannot be compared.

    `elements` is how many were compared: none of an empty array, nor of one that is nowhere finite in the reference.
    `bound` is that of the worst element.
    """

    ratio: float
    text: str = ""
    index: tuple[int, ...] = ()
    observed: float | None = None
    expected: float | None = None
    elements: int = 1
    bound: float = 0.0


def place(step: int | None, observable: str, name: str | None = None, index: tuple[int, ...] = ()) -> str:
    """`step 3, variables 'dense/kernel'[2, 1]`, or `at the end, ...`."""
    when = "at the end" if step is None else f"step {step}"
    what = observable if name is None or observable == "loss" else f"{observable} {name!r}"
    return f"{when}, {what}{list(index) if index else ''}"


def show(number: Any) -> str:
    """The shortest digits that distinguish a NumPy scalar from its neighbours of the same dtype."""
    return str(number)


def number(value: Any) -> float:
    """A finding's number; of a complex value its magnitude."""
    return float(abs(value)) if value.dtype.kind == "c" else float(value)


def compare(run: Observed, reference: Observed, bound: np.ndarray[Any, Any] | float) -> Comparison:
    """The element of two global values that is furthest beyond its bound, where the reference is finite.

    Args:
        run: what was observed.
        reference: what should have been.
        bound: how far each element may be off, in the shape of the reference's value, or one for all. Integers and
            booleans must be equal whatever it is.

    A run that is not finite where the reference is has an infinite ratio. Where the reference is NaN or infinite it
    says nothing about the run: every error would look equal.
    """
    import numpy as np

    if run.problem or reference.problem:
        return Comparison(float("inf"), str(run.problem or f"in the reference: {reference.problem}"))
    if run.array.shape != reference.array.shape:
        return Comparison(float("inf"), f"has shape {run.array.shape}, expected {reference.array.shape}")
    if run.rows != reference.rows:
        return Comparison(float("inf"), f"has rows of {show_rows(run.rows)}, expected {show_rows(reference.rows)}")
    known = finite_elements(reference.array)
    elements = int(np.count_nonzero(known))
    if elements == 0:
        return Comparison(0.0, elements=0)
    if is_integer(run.dtype) and is_integer(reference.dtype):
        bound = 0.0
    error = np.where(known, errors(run.array, reference.array), 0.0)
    beyond = ratios(error, np.broadcast_to(bound, error.shape))
    # Of those that are beyond any bound the one with the largest error.
    worst = beyond == beyond.max()
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(worst, error, -1.0))), error.shape))
    ratio, allowed = float(beyond[index]), float(np.broadcast_to(bound, error.shape)[index])
    observed, expected = run.array[index], reference.array[index]
    text = (
        f"observed {show(observed)}, expected {show(expected)}, error {error[index]:.3g}, bound {allowed:.3g}, "
        f"ratio {ratio:.3g}"
    )
    if run.dtype != reference.dtype:
        text += f" (as {run.dtype}, the reference as {reference.dtype})"
    return Comparison(ratio, text, index, number(observed), number(expected), elements, allowed)


def ratios(error: np.ndarray[Any, Any], bound: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Error over bound: 0 without an error, infinite for any error where the bound is 0."""
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        found = np.divide(error, bound, out=np.full(error.shape, np.inf), where=bound > 0)
    return np.where(error == 0, 0.0, np.where(np.isnan(found), np.inf, found))


def finite_elements(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where an array is neither NaN nor infinite, which integers and booleans never are."""
    import numpy as np

    return np.isfinite(array) if array.dtype.kind in "fc" else np.ones(array.shape, bool)


def errors(run: np.ndarray[Any, Any], reference: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Absolute differences as float64: 0 where equal, infinite where only one of the two is finite."""
    import numpy as np

    if run.dtype.kind in "biu" and reference.dtype.kind in "biu":
        # Subtracting integers may wrap around, and the verdict needs only equality; the report can do with float64.
        error = np.abs(run.astype(np.float64) - reference.astype(np.float64))
        return np.where(run == reference, 0.0, np.maximum(error, 1.0))
    wide = np.complex128 if "c" in (run.dtype.kind, reference.dtype.kind) else np.float64
    ours, truth = run.astype(wide), reference.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(ours == truth, 0.0, np.abs(ours - truth))
    return np.where(np.isnan(error), np.inf, error)


def differing_bits(a: Array, b: Array) -> Comparison | None:
    """The element at which two arrays are furthest apart, in units in the last place; None when bit-identical."""
    import numpy as np

    if a == b:
        return None
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return Comparison(float("inf"), f"{a.dtype} of shape {a.shape} against {b.dtype} of shape {b.shape}")
    if a.rows != b.rows:
        return Comparison(float("inf"), f"rows of {show_rows(a.rows)} against {show_rows(b.rows)}")
    ours, theirs = a.numpy(), b.numpy()
    if ours.dtype.kind == "f":
        distance = _ulps(ours, theirs, a.dtype)
        apart = f"{int(distance.max())} ulp apart"
    else:
        distance = (ours != theirs).astype(np.uint64)
        apart = "not equal"
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))
    x, y = ours[index], theirs[index]
    if np.isnan(x) or np.isnan(y):
        apart = "not bit-identical"
    return Comparison(float("inf"), f"{show(x)} against {show(y)}, {apart}", index, number(x), number(y))


def _ulps(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Steps between representable numbers, as uint64; -0.0 and 0.0 are one apart."""
    import numpy as np

    bits = a.dtype.itemsize * 8
    sign = np.uint64(1 << (bits - 1))
    mask = np.uint64((1 << bits) - 1)

    def rank(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        raw = array.view(f"uint{bits}").astype(np.uint64)
        return np.where(raw & sign, raw ^ mask, raw | sign)

    x, y = rank(a), rank(b)
    # bfloat16 is stored as float32, whose lower half is then unused.
    return np.asarray(np.where(x > y, x - y, y - x) >> np.uint64(16 if dtype == "bfloat16" else 0))
