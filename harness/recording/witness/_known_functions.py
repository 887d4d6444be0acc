"""What functions of a program were when they were traced or called: when they are called again, no Python is run."""

from __future__ import annotations

import weakref
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
        eager: those that are a step when replicas run them eagerly: it begins with the call, and not where a tape is
            asked for gradients.
    """

    def __init__(self) -> None:
        self.training: weakref.WeakSet[Any] = weakref.WeakSet()
        self.by_hand: weakref.WeakSet[Any] = weakref.WeakSet()
        self.changing: weakref.WeakSet[Any] = weakref.WeakSet()
        self.evaluating: weakref.WeakSet[Any] = weakref.WeakSet()
        self.eager: weakref.WeakSet[Any] = weakref.WeakSet()

    def call(self, function: Any, *, is_traced: bool) -> KnownCall:
        """What is known of a call.

        Args:
            function: that is called.
            is_traced: whether it is a `tf.function`, whose Python is not run again.
        """
        if not is_traced:
            return KnownCall(trains=function in self.eager)
        trains = function in self.training or function in self.eager
        return KnownCall(trains, *(function in kind for kind in (self.by_hand, self.evaluating, self.changing)))

    def __contains__(self, function: Any) -> bool:
        return any(function in kind for kind in (self.training, self.by_hand, self.evaluating))
