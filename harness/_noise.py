"""Rounding-sized noise for extra reference runs, whose spread is the unit of the derived tolerance.

Distributing a step changes the order of floating-point sums and nothing else. By backward error analysis (Higham, *Accuracy and
Stability of Numerical Algorithms*, 2nd ed., sections 3.1 and 4.2) such a change is equivalent to perturbing the operands by a relative
amount of the size of eps. So a reference run whose variables are perturbed by that much, at creation and after each recorded step,
shows how far this very training amplifies rounding; a distributed run should differ from the reference by no more than that.

Two roundings are modelled. A variable is perturbed by the eps of its own dtype, relative to each element. What the latest step added
to it is perturbed by the eps of the dtype that layers compute in (coarser under mixed precision), relative to the largest element,
because a sum over examples whose terms cancel keeps the rounding of its partial sums.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from harness._capture import tensor_of

__all__ = ["Noise"]


class Noise:
    """Perturbs floating variables, uniformly and elementwise, by amounts of the size of rounding."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        self._random = np.random.default_rng(seed)
        # Values after the previous perturbation; the variable is kept so that its id is not given to another one.
        self._before: dict[int, tuple[Any, np.ndarray[Any, Any]]] = {}

    @contextlib.contextmanager
    def at_creation(self) -> Iterator[None]:
        """Perturb every variable created in this context."""
        import tensorflow as tf

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            variable = next_creator(**kwargs)
            if tf.executing_eagerly():
                self._perturb(variable, after_step=False)
            return variable

        with tf.variable_creator_scope(creator):
            yield

    def nudge(self, variables: Iterable[Any]) -> None:
        """Perturb these variables in place, after a step. Scalars are hyperparameters and counters, and stay."""
        for variable in variables:
            self._perturb(tensor_of(variable), after_step=True)

    def _perturb(self, variable: Any, *, after_step: bool) -> None:
        import numpy as np

        if not variable.dtype.is_floating or variable.shape.rank == 0:
            return
        values = variable.numpy().astype(np.float64)
        noise = _eps(variable.dtype.name) * np.abs(values) * self._uniform(values.shape)
        if after_step:
            _, before = self._before.get(id(variable), (None, np.zeros_like(values)))
            added = np.abs(values - before)
            # A variable without negative values (a second moment, a variance) must not become negative: each element has its own size.
            size = added if values.min(initial=0.0) >= 0 else added.max(initial=0.0)
            noise += max(_eps(variable.dtype.name), _compute_eps()) * size * self._uniform(values.shape)
        variable.assign((values + noise).astype(variable.dtype.as_numpy_dtype))
        self._before[id(variable)] = (variable, variable.numpy().astype(np.float64))

    def _uniform(self, shape: tuple[int, ...]) -> Any:
        return self._random.uniform(-1.0, 1.0, size=shape)


def _eps(dtype: str) -> float:
    """Distance from 1 to the next number of a floating dtype."""
    return {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 0.0)


def _compute_eps() -> float:
    """The eps of the dtype that Keras layers compute in: under mixed precision it is coarser than the variables' own."""
    policies = (
        sys.modules[keras].mixed_precision.global_policy()
        if keras == "tf_keras"
        else sys.modules[keras].mixed_precision.dtype_policy()
        for keras in ("keras", "tf_keras")
        if keras in sys.modules
    )
    return max((_eps(policy.compute_dtype) for policy in policies), default=0.0)
