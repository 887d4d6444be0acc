"""Finds variables that change from step to step and that a program does not record, and says whose they are."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["Unrecorded", "owner_of"]

# The classes of Keras 3, tf_keras and TensorFlow that make variables of their own, and what a sentence calls them.
_OWNERS = {
    "Optimizer": "an optimizer",
    "BaseOptimizer": "an optimizer",
    "_BaseOptimizer": "an optimizer",
    "OptimizerV2": "an optimizer",
    "Metric": "a metric",
    "SeedGenerator": "a random generator",
    "Generator": "a random generator",
    "Model": "a model",
    "Layer": "a layer",
}
_PACKAGES = ("keras", "tf_keras", "tensorflow")
_PROGRAM = "the program"


class Unrecorded:
    """Looks at the variables that a program makes while it is tracked."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str]] = []
        self._seen: dict[int, bytes] = {}
        self._changing: dict[int, tuple[str, str]] = {}
        self._known: set[int] = set()

    @contextlib.contextmanager
    def tracking(self) -> Iterator[None]:
        """See every variable that is made in this context."""
        import tensorflow as tf

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            variable = next_creator(**kwargs)
            if tf.executing_eagerly() and variable.dtype != tf.string:
                owner = owner_of()
                # The models of tf_keras count their steps.
                if owner != "a model" or not variable.dtype.is_integer:
                    self._made.append((weakref.ref(variable), owner))
            return variable

        with tf.variable_creator_scope(creator):
            yield

    def look(self, step: int, known: Iterable[Any]) -> None:
        """Compare those that are not among the known ones with how they were before.

        Only at the first steps and then ever more rarely, since each look reads them whole.
        """
        ids = {id(variable) for variable in known}
        self._known |= {number for number, (made, _) in enumerate(self._made) if id(made()) in ids}
        if step & (step - 1):
            return
        for number, (made, owner) in enumerate(self._made):
            variable = made()
            if variable is None or number in self._known:
                continue
            digest = hashlib.blake2b(variable.numpy().tobytes()).digest()
            if self._seen.setdefault(number, digest) != digest:
                self._changing.setdefault(number, (owner, variable.name.partition(":")[0]))

    def changing(self) -> dict[str, tuple[str, ...]]:
        """The names of those that have changed, by whose they are."""
        found: dict[str, tuple[str, ...]] = {}
        for number, (owner, name) in self._changing.items():
            if number not in self._known:  # by now
                found[owner] = (*found.get(owner, ()), name)
        return found


def owner_of() -> str:
    """Whose constructor or method is making a variable: the nearest caller that is a known class of a known package."""
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        for kind in type(caller).__mro__:
            if kind.__name__ in _OWNERS and kind.__module__.partition(".")[0] in _PACKAGES:
                return _OWNERS[kind.__name__]
        frame = frame.f_back
    return _PROGRAM
