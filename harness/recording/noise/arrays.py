"""NumPy arrays that become tensors: floating elements by 2 eps of themselves, and never a single number.

An array becomes a tensor by `tf.constant` and `tf.convert_to_tensor`, which TensorFlow itself and Keras call as well,
as an argument of a `tf.function`, or as an operand of an op that is carried out at once. What makes a dataset stays,
since its elements are perturbed when they come out. So does what is assigned to a variable, and what was read from one:
it has had its noise, and a copy must equal what it is copied from. Signs follow the content: the same array becomes the
same tensor each time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.recording.noise.protocol import NoiseSource, eps_of, fingerprint, patched

ROUNDINGS = 2.0
"""Less than of datasets: Keras makes tensors of arrays and then a dataset of these, and amounts of the same size would
cancel in half of the elements."""


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb arrays on their way into TensorFlow in this context."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.framework import constant_op
    from tensorflow.python.ops import resource_variable_ops

    def constant(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(value: Any, dtype: Any, *args: Any, **options: Any) -> Any:
            return original(_moved(source, value, dtype), dtype, *args, **options)

        return create

    def op(original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(*args: Any) -> Any:
            return original(*(_moved(source, each) for each in args))

        return execute

    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(constant_op, "_constant_impl", constant))
        stack.enter_context(patched(pywrap_tfe, "TFE_Py_FastPathExecute", op))
        for name in ("assign", "assign_add", "assign_sub"):
            stack.enter_context(patched(resource_variable_ops.ResourceVariable, name, source.silently))
        yield


def _moved(source: NoiseSource, value: Any, dtype: Any = None) -> Any:
    import numpy as np

    if type(value) is not np.ndarray or value.ndim == 0 or source.is_silent or not eps_of(value.dtype.name):
        return value
    # What becomes float32 has the eps of float32 already here, or the cast would take the noise away again.
    eps = max(eps_of(value.dtype.name), eps_of(_name(dtype)))
    if (content := fingerprint(value)) in source.variables:
        return value
    random = np.random.default_rng([source.seed, content])
    signs = source.sign * random.choice([-1.0, 1.0], size=value.shape)
    with np.errstate(invalid="ignore"):
        floor = np.floor(value)
        away = (value * (1 + ROUNDINGS * eps * signs)).astype(value.dtype)
        away = np.maximum(floor, np.minimum(away, floor + 1))
        return np.where(value == floor, value, away).astype(value.dtype)


def _name(dtype: Any) -> str:
    import tensorflow as tf

    return "" if dtype is None else str(tf.as_dtype(dtype).name)
