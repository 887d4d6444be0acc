"""What functions of a program were when they were traced or called: when they are called again, no Python is run."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KnownCall:
    """What is known of a call before it is made, by earlier ones of the same function.

    Attributes:
        trains: whether it is a step.
        by_hand: whether it is one of a program that takes no gradients.
        evaluates: whether it runs replicas and takes no gradients.
        changes: whether it changes variables that a step is there to change.
    """

    trains: bool = False
    by_hand: bool = False
    evaluates: bool = False
    changes: bool = False


class KnownFunctions:
    """Functions by what they are.

    Attributes:
        training: those that are a step.
        by_hand: those that are a step of a program which takes no gradients, if it assigns what they compute.
        changing: those in which variables change that a step is there to change.
        evaluating: those that run replicas and take no gradients, of a program that does elsewhere.
    """

    def __init__(self) -> None:
        self.training: weakref.WeakSet[Any] = weakref.WeakSet()
        self.by_hand: weakref.WeakSet[Any] = weakref.WeakSet()
        self.changing: weakref.WeakSet[Any] = weakref.WeakSet()
        self.evaluating: weakref.WeakSet[Any] = weakref.WeakSet()
        self._eager: set[Hashable] = set()
        self._numbers: dict[str, dict[Hashable, int]] = {}

    def call(self, function: Any, *, is_traced: bool) -> KnownCall:
        """What is known of a call.

        Args:
            function: that is called.
            is_traced: whether it is a `tf.function`, whose Python is not run again.
        """
        trains_eagerly = _sameness(function) in self._eager
        if not is_traced:
            return KnownCall(trains=trains_eagerly)
        trains = function in self.training or trains_eagerly
        return KnownCall(trains, *(function in kind for kind in (self.by_hand, self.evaluating, self.changing)))

    def trains_eagerly(self, function: Any) -> None:
        """It is a step when replicas run it eagerly: that begins with the call, not where a tape is asked."""
        self._eager.add(_sameness(function))

    def number(self, name: str, function: Any) -> int:
        """Of the functions of such a name that were called, which one it is, from 1.

        A program may make several of one code, which train other weights. What is made anew for each call is one.

        Args:
            name: tells where its code is.
            function: that is called.
        """
        inner = getattr(function, "python_function", None)
        key = _sameness(function) if inner is None else weakref.ref(inner)
        numbers = self._numbers.setdefault(name, {})
        return numbers.setdefault(key, len(numbers) + 1)

    def __contains__(self, function: Any) -> bool:
        return any(function in kind for kind in (self.training, self.by_hand, self.evaluating))


def _sameness(function: Any) -> Hashable:
    """What is equal for functions that a program makes for each call anew, as tf_keras does.

    Those of one code that hold other flags are others, since one of them may train and another not.
    """
    if inspect.isfunction(function):
        code, flags = function.__code__, []
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # it is empty
                if (value := cell.cell_contents) is None or isinstance(value, (bool, str)):
                    flags.append((name, value))
        return code, tuple(flags)
    try:
        hash(function)
        return weakref.ref(function)
    except TypeError:  # nothing tells it from others of its kind
        return repr(type(function))
