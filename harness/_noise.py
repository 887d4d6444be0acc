"""Rounding-sized noise for extra reference runs, whose spread is the unit of the derived tolerance.

Distributing a step changes the order of floating-point sums and nothing else. Each such change is, by backward error analysis
(Higham, *Accuracy and Stability of Numerical Algorithms*, ch. 3-4), equivalent to perturbing the operands by a relative amount of the
size of the dtype's eps. So a reference run whose variables are perturbed by that much, at creation and after each recorded step,
shows how far this very training amplifies rounding; a distributed run should differ from the reference by no more than that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from harness._capture import tensor_of

__all__ = ["Noise"]


class Noise:
    """Perturbs floating variables by a relative eps, elementwise, uniformly in [-eps, eps]."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        self._random = np.random.default_rng(seed)

    @contextlib.contextmanager
    def at_creation(self) -> Iterator[None]:
        """Perturb every variable created in this context."""
        import tensorflow as tf

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            variable = next_creator(**kwargs)
            if tf.executing_eagerly():
                self.nudge([variable])
            return variable

        with tf.variable_creator_scope(creator):
            yield

    def nudge(self, variables: Iterable[Any]) -> None:
        """Perturb these variables in place. Scalars are hyperparameters and counters, and stay."""
        import numpy as np

        for variable in variables:
            inner = tensor_of(variable)
            if not inner.dtype.is_floating or inner.shape.rank == 0:
                continue
            values = inner.numpy()
            eps = np.finfo(values.dtype).eps if values.dtype.kind == "f" else 2.0**-7  # bfloat16 has 8 bits
            factor = 1.0 + eps * self._random.uniform(-1.0, 1.0, size=values.shape)
            inner.assign((values.astype(np.float64) * factor).astype(values.dtype))
