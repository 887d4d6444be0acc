"""Which threads take part in the steps that are seen: those that TensorFlow starts for them, not the program's own.

A program may take gradients in a thread of its own while it trains in another one, of examples that it only probes.
Nothing that it does there belongs to the step which happens to be under way.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

_OF_COORDINATORS = "WorkerClosureProcessingLoop"
"""How `ClusterCoordinator` calls its threads, in which closures that are no `tf.function` run."""


class Threads:
    """Tells for the thread that asks whether it takes part in what the one that made this does.

    Attributes:
        main: the identity of that one.
        gradients_aside: whether one that takes no part has taken gradients.
    """

    def __init__(self) -> None:
        self.main = threading.get_ident()
        self.gradients_aside = False
        # Of MirroredStrategy, which has a thread for each of its replicas.
        self._replicas: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    @property
    def is_main(self) -> bool:
        """Whether it is that thread itself."""
        return threading.get_ident() == self.main

    @property
    def is_aside(self) -> bool:
        """Whether it is one that the program has started, or a replica's that belongs to such a one."""
        if self.is_main:
            return False
        thread = threading.current_thread()
        started_by_tensorflow = (
            # Python knows no more of a thread of TensorFlow's runtime, which calls `tf.py_function`.
            isinstance(thread, threading._DummyThread)  # noqa: SLF001
            or thread.name.startswith(_OF_COORDINATORS)
            or thread in self._replicas
        )
        return not started_by_tensorflow

    def replicas(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The constructor of a replica's thread, which is called in the thread that wants the replica run."""

        def init(thread: Any, *args: Any, **options: Any) -> None:
            original(thread, *args, **options)
            if not self.is_aside:
                self._replicas.add(thread)

        return init
