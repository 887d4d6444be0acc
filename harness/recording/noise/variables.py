"""Variables: at creation and after each recorded step, each element by the eps of its dtype."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from harness.recording.layouts import copies_of, is_laid_out, set_shards
from harness.recording.noise.protocol import NoiseSource, eps_of

if TYPE_CHECKING:
    import numpy as np


@contextlib.contextmanager
def active(source: NoiseSource) -> Iterator[None]:
    """Perturb every variable that is created in this context."""
    import tensorflow as tf

    def creator(next_creator: Any, **options: Any) -> Any:
        with source.silent():  # else the array that it begins with would be perturbed as well
            variable = next_creator(**options)
        if tf.executing_eagerly():
            perturb(source, variable)
        return variable

    with tf.variable_creator_scope(creator):
        yield


def perturbed(source: NoiseSource, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What a variable of these values would be. Scalars are hyperparameters and counters, and stay."""
    import numpy as np

    eps = eps_of(values.dtype.name)
    if not eps or not values.ndim:
        return values
    signs = source.sign * source.random.choice([-1.0, 1.0], size=values.shape)
    return np.asarray(values.astype(np.float64) * (1.0 + eps * signs)).astype(values.dtype)


def perturb(source: NoiseSource, variable: Any) -> None:
    """Perturb a variable in place. Scalars are hyperparameters and counters, and stay."""
    import numpy as np

    if not variable.dtype.is_floating or variable.shape.rank == 0:
        return
    source.note(variable.dtype.name)
    if is_laid_out(variable):
        with source.silent():
            set_shards(variable, [perturbed(source, each) for each in copies_of(variable)])
        return
    with source.silent():
        values = np.asarray(variable.numpy())
        if values.shape != variable.shape:  # has no value yet, as where a saved model is loaded
            return
        variable.assign(perturbed(source, values))
