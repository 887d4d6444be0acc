"""What functions of a program were when they were traced or called: when they are called again, no Python is run."""

from __future__ import annotations

import weakref
from typing import Any


class KnownFunctions:
    """Functions by what they are.

    Attributes:
        training: those that are a step.
        by_hand: those that are a step of a program which takes no gradients, if it assigns what they compute.
        evaluating: those that run replicas and take no gradients, of a program that does elsewhere.
        eager: those that are a step when replicas run them eagerly: it begins with the call, and not where a tape is
            asked for gradients.
    """

    def __init__(self) -> None:
        self.training: weakref.WeakSet[Any] = weakref.WeakSet()
        self.by_hand: weakref.WeakSet[Any] = weakref.WeakSet()
        self.evaluating: weakref.WeakSet[Any] = weakref.WeakSet()
        self.eager: weakref.WeakSet[Any] = weakref.WeakSet()

    def __contains__(self, function: Any) -> bool:
        return any(function in kind for kind in (self.training, self.by_hand, self.evaluating))
