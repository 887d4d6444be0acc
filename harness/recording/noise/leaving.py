"""Numbers that leave TensorFlow for Python or NumPy: by 1 eps of the dtype that they were computed in.

`float(loss) / 12` arrives as a float64 that is only as good as a float32; nothing but a rerun in which the float32 is
another one shows that. So a tensor is perturbed by `float(t)`, `t.numpy()` and `numpy.asarray(t)`, and only there: what
stays in TensorFlow keeps every bit.

Python is also where a program decides: when to stop, which checkpoint is the best, what the next learning rate is. So
the perturbed number depends on nothing but the number: equal ones stay equal, wherever and whenever they leave. And
these stay as they are:

- whole numbers: steps, shapes, counts, labels, masks;
- of single numbers and short vectors, quotients of small whole numbers, which are shares of counts, such as an
  accuracy; and decimals of three digits, which are what people write: rates, factors, thresholds;
- variables of rank 1 and more, which have noise of their own and may be assigned to another one, saved or compared;
- what TensorFlow turns into numbers for itself (`tensor_util.constant_value`: static shapes and rates), and what is
  printed or is asked for being true.

`float` and `numpy` are methods written in Python, in a base class of tensors. NumPy does not ask a tensor for them: it
takes the buffer of its memory, see `buffers`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from harness.recording.noise.buffers import exporting
from harness.recording.noise.protocol import Source, eps_of, fingerprint, patched

if TYPE_CHECKING:
    import numpy as np

__all__ = ["active", "moved_number"]

# Some of a million numbers look like quotients or decimals by chance, and only few numbers are what is decided by.
_DECIDING_MAX = 1024


@contextlib.contextmanager
def active(source: Source) -> Iterator[None]:
    """Perturb what leaves TensorFlow in this context."""
    from tensorflow.python.framework import ops, tensor_util
    from tensorflow.python.ops import resource_variable_ops

    def leaves(tensor: Any) -> Any:
        found = tensor._numpy()  # noqa: SLF001 - as the methods themselves do
        return found if source.is_silent else moved_number(source, found)

    def number(_: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensor: float(leaves(tensor))

    def array(original: Callable[..., Any]) -> Callable[..., Any]:
        def convert(tensor: Any, *args: Any, **options: Any) -> Any:
            found = original(tensor, *args, **options)
            return found if source.is_silent else moved_number(source, found)

        return convert

    def as_array(_: Callable[..., Any]) -> Callable[..., Any]:
        import numpy as np

        return lambda tensor, dtype=None: np.asarray(leaves(tensor), dtype)

    def of_variable(original: Callable[..., Any]) -> Callable[..., Any]:
        def convert(variable: Any, *args: Any, **options: Any) -> Any:
            if source.is_silent or not variable.shape.rank:
                return original(variable, *args, **options)
            with source.silent():
                found = original(variable, *args, **options)
            source.variables.add(fingerprint(found))
            return found

        return convert

    with contextlib.ExitStack() as stack:
        tensors, variables = ops._EagerTensorBase, resource_variable_ops.BaseResourceVariable  # noqa: SLF001
        stack.enter_context(patched(tensors, "__float__", number))
        stack.enter_context(patched(tensors, "numpy", array))
        stack.enter_context(patched(tensors, "__array__", as_array))
        stack.enter_context(exporting(ops.EagerTensor, leaves))
        stack.enter_context(patched(variables, "numpy", of_variable))
        stack.enter_context(patched(variables, "__array__", of_variable))
        stack.enter_context(patched(tensor_util, "constant_value", source.silently))
        yield


def moved_number(source: Source, found: Any) -> Any:
    """A number or array of NumPy with each element moved by one eps, up or down as its bits say."""
    import numpy as np

    if not isinstance(found, (np.ndarray, np.generic)) or not (eps := eps_of(found.dtype.name)):
        return found
    array = np.asarray(found)
    with np.errstate(invalid="ignore", over="ignore"):
        floor = np.floor(array)
        stays = array == floor
        if array.size <= _DECIDING_MAX:
            stays = stays | _decided_by(array, eps)
        away = (array * (1 + eps * source.sign * _signs(array, source.seed))).astype(array.dtype)
        moved = np.where(stays, array, np.maximum(floor, np.minimum(away, floor + 1))).astype(array.dtype)
    return moved if isinstance(found, np.ndarray) else moved[()]


def _signs(array: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """Plus or minus one, by the bits of each number and by the seed."""
    import numpy as np

    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape).astype(np.uint64)
    mixed = (bits + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.where(mixed >> np.uint64(63), 1.0, -1.0)


def _decided_by(array: np.ndarray[Any, Any], eps: float) -> np.ndarray[Any, Any]:
    """Where the number is what a short decimal, or a quotient of small whole numbers, is rounded to."""
    import numpy as np

    with np.errstate(all="ignore"):
        found: np.ndarray[Any, Any] = _is_decimal(array, eps) | _is_quotient(array, eps)
    return found


def _is_decimal(array: np.ndarray[Any, Any], eps: float) -> np.ndarray[Any, Any]:
    """Decimals of three digits, or of fewer where the dtype has not many more: then most numbers are one."""
    import numpy as np

    digits = min(3, math.floor(math.log10(0.02 / eps)))
    if digits < 1:
        return np.zeros(array.shape, bool)
    sizes = np.abs(array.astype(np.float64))
    places = digits - 1 - np.floor(np.log10(sizes))
    # Divided: 3 / 1000 is the decimal 0.003, and 3 * 0.001 is not.
    decimal = np.where(places > 0, np.round(sizes * 10**places) / 10**places, np.round(sizes, 0))
    found: np.ndarray[Any, Any] = decimal.astype(array.dtype) == np.abs(array)
    return found


def _is_quotient(array: np.ndarray[Any, Any], eps: float) -> np.ndarray[Any, Any]:
    """Quotients p / q with p * q up to 0.04 / eps, by continued fractions.

    Of random numbers one in a hundred is taken for one: there are about 0.3 * Q ** 2 quotients with q up to Q between
    0 and 1, each for the width of half an eps.
    """
    import numpy as np

    sizes = np.abs(array.astype(np.float64))
    found = np.zeros(array.shape, bool)
    p, q, p_before, q_before = np.ones_like(sizes), np.zeros_like(sizes), np.zeros_like(sizes), np.ones_like(sizes)
    rest = sizes
    for _ in range(40):  # p * q doubles at least with each turn, up to 0.04 / eps of float64
        whole = np.floor(rest)
        p, q, p_before, q_before = whole * p + p_before, whole * q + q_before, p, q
        small = p * q * eps <= 0.04
        if not small.any():
            break
        found |= small & ((p / q).astype(array.dtype) == np.abs(array))
        rest = 1 / (rest - whole)
    return found
