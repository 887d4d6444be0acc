"""The noise of one rerun of the reference: which seams it has, and what the recorder asks of it.

Distributing a step changes the order of floating-point sums and nothing else. By backward error analysis (Higham,
*Accuracy and Stability of Numerical Algorithms*, 2nd ed., sections 3.1 and 4.2) such a change is equivalent to
perturbing the operands by a relative amount of the size of eps. So a reference run that is perturbed by that much shows
how far this very training amplifies rounding; a distributed run should differ from the reference by no more than that.

Perturbations are extreme, plus or minus the whole amount, and come in opposite pairs: where rounding can turn a sign,
one of a pair does turn it. Random signs of random size would miss that in one run of sixteen. The amounts of seams that
one number passes one after another are unlike (2 eps where replicas are summed, 4 in a gradient), so that they cannot
cancel.

No seam draws from a generator that the program uses, adds or takes elements, or changes a shape, and whole numbers stay
as they are. Nothing is done to numbers that leave TensorFlow for Python or NumPy: they have the noise of what they were
computed from, by which `float(total) / 12` shows the eps of float32 although it arrives as float64; and Python is also
where programs decide. What does not survive a rerun is a program that asserts two floating numbers to be equal which it
has computed, or brought into TensorFlow, in two ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from harness.recording.noise import (
    aggregated,
    arrays,
    casts,
    datasets,
    gradient_casts,
    gradients,
    halves,
    reductions,
    rewriting,
    sums,
    totals,
    variables,
)
from harness.recording.noise.protocol import NoiseSource, compute_eps, dtype_of
from harness.recording.tensors import tensor_of

SEAMS: tuple[ModuleType, ...] = (
    variables,
    gradients,
    gradient_casts,
    datasets,
    arrays,
    sums,
    reductions,
    casts,
    totals,
    halves,
    aggregated,
    rewriting,
)
"""Each a `protocol.Seam`."""


class Noise:
    """Perturbs what passes the seams by amounts of the size of rounding. Seeds `s` and `-s` are an opposite pair.

    Args:
        seed: of the signs.
        seams: where numbers are perturbed.
    """

    def __init__(self, seed: int, seams: Iterable[ModuleType] = SEAMS) -> None:
        self._source = NoiseSource(seed)
        self._seams = tuple(seams)

    @property
    def coarsest(self) -> str | None:
        """The coarsest floating dtype that variables, gradients, Keras's policies and casts with a gradient had until
        now, None if none had one.
        """
        return dtype_of(max(self._source.coarsest, compute_eps()))

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Perturb what the program does in this context."""
        with contextlib.ExitStack() as stack:
            for seam in self._seams:
                stack.enter_context(seam.active(self._source))
            yield

    def silent(self) -> contextlib.AbstractContextManager[None]:
        """Perturb nothing in this context: what the harness itself reads is not the program's."""
        return self._source.silent()

    @property
    def is_silent(self) -> bool:
        """Whether what happens in this thread is the harness's own."""
        return self._source.is_silent

    def of_data(self, tensor: Any) -> Any:
        """A tensor of examples, perturbed as one that leaves a dataset."""
        return datasets.perturbed(self._source, tensor)

    def of_state(self, values: Any) -> Any:
        """The values of a variable, perturbed as those of one that is nudged."""
        return variables.perturbed(self._source, values)

    def nudge(self, given: Iterable[Any]) -> None:
        """Perturb these variables in place, after a step."""
        for variable in given:
            variables.perturb(self._source, tensor_of(variable))
