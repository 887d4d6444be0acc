"""Rounding-sized noise for extra reference runs, whose spread is the unit of the derived tolerance.

Distributing a step changes the order of floating-point sums and nothing else. By backward error analysis (Higham,
*Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 3.1 and 4.2) such a change is equivalent to
perturbing the operands by a relative amount of the size of eps. So a reference run that is perturbed by that much shows
how far this very training amplifies rounding; a distributed run should differ from the reference by no more than that.

Perturbed are the variables, at creation and after each recorded step, by the eps of their dtype relative to each
element; and every gradient, by the eps of the dtype that layers compute in (coarser under mixed precision) relative to
its largest element, because a sum over examples whose terms cancel keeps the rounding of its partial sums. It is the
gradient that has to be perturbed and not the update: an optimizer such as Adam makes a full step of a tiny gradient,
whose sign may be all rounding.

Perturbations are extreme, plus or minus the whole amount, and come in opposite pairs: where rounding can turn a sign,
one of a pair does turn it. Random signs of random size would miss that in one run of sixteen.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from harness.recording.tensors import tensor_of

__all__ = ["Noise"]

# A gradient is rounded once per replica when it is computed, and once or twice more when replicas are summed.
_ROUNDINGS = 4
_EPS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


class Noise:
    """Perturbs variables and gradients by amounts of the size of rounding. Seeds `s` and `-s` are an opposite pair."""

    def __init__(self, seed: int) -> None:
        import numpy as np

        self._random = np.random.default_rng(abs(seed))
        self._seed = abs(seed)
        self._sign = 1.0 if seed >= 0 else -1.0
        self._coarsest = 0.0

    @property
    def coarsest(self) -> str | None:
        """The coarsest floating dtype that variables, gradients and Keras layers had until now, None if none had."""
        size = max(self._coarsest, _compute_eps())
        return next((dtype for dtype, eps in _EPS.items() if eps == size), None)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Perturb every variable created, and every gradient taken with `tf.GradientTape`, in this context."""
        import tensorflow as tf

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            variable = next_creator(**kwargs)
            if tf.executing_eagerly():
                self._perturb_variable(variable)
            return variable

        original = tf.GradientTape.gradient

        def gradient(tape: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(tape, *args, **kwargs)
            return tf.nest.map_structure(self._perturbed_gradient, found)

        tf.GradientTape.gradient = gradient
        try:
            with tf.variable_creator_scope(creator):
                yield
        finally:
            tf.GradientTape.gradient = original

    def nudge(self, variables: Iterable[Any]) -> None:
        """Perturb these variables in place, after a step."""
        for variable in variables:
            self._perturb_variable(tensor_of(variable))

    def _perturb_variable(self, variable: Any) -> None:
        import numpy as np

        # Scalars are hyperparameters and counters, and stay.
        if not variable.dtype.is_floating or variable.shape.rank == 0:
            return
        self._coarsest = max(self._coarsest, _eps(variable.dtype.name))
        values = variable.numpy().astype(np.float64)
        signs = self._sign * self._random.choice([-1.0, 1.0], size=values.shape)
        noisy = values * (1.0 + _eps(variable.dtype.name) * signs)
        variable.assign(noisy.astype(variable.dtype.as_numpy_dtype))

    def _perturbed_gradient(self, gradient: Any) -> Any:
        import tensorflow as tf

        if gradient is None or not gradient.dtype.is_floating:
            return gradient
        if isinstance(gradient, tf.IndexedSlices):
            values = self._perturbed_gradient(gradient.values)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        self._coarsest = max(self._coarsest, _eps(gradient.dtype.name))
        # The seed follows the values, so that signs differ from step to step; ops without state change no random
        # stream.
        varying = tf.bitcast(tf.cast(tf.reduce_sum(gradient), tf.float32), tf.int32)
        uniform = tf.random.stateless_uniform(tf.shape(gradient), seed=tf.stack([self._seed, varying]))
        size = _ROUNDINGS * max(_eps(gradient.dtype.name), _compute_eps()) * tf.reduce_max(tf.abs(gradient))
        noise = tf.cast(self._sign * tf.sign(uniform - 0.5), gradient.dtype) * size
        # A gradient that is exactly zero, of an input that is always zero for example, is zero in any order of
        # summation.
        return tf.where(gradient == 0, gradient, gradient + noise)


def _eps(dtype: str) -> float:
    """Distance from 1 to the next number of a floating dtype."""
    return _EPS.get(dtype, 0.0)


def _compute_eps() -> float:
    """The eps of the dtype that Keras layers compute in: with mixed precision it is coarser than the variables' own."""
    policies = (
        sys.modules[keras].mixed_precision.global_policy()
        if keras == "tf_keras"
        else sys.modules[keras].mixed_precision.dtype_policy()
        for keras in ("keras", "tf_keras")
        if keras in sys.modules
    )
    return max((_eps(policy.compute_dtype) for policy in policies), default=0.0)
