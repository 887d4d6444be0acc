"""What can be seen of a program in this thread, and what of it is the harness's own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from harness.recording.witness._registry import Registry
from harness.recording.witness._threads import Threads


class Sight:
    """Knows of each thread whether values can be had there, and whether draws in it are the program's.

    Attributes:
        unseen: sentences about what cannot be seen.
        threads: tells which threads take part in steps.
        registry: the variables that were made.
        is_quiet: whether what happens in this thread is the harness's own.
    """

    registry: Registry

    def __init__(self) -> None:
        self.unseen: dict[str, None] = {}
        self.threads = Threads()
        self.is_quiet: Callable[[], bool] = lambda: False
        self._apart = threading.local()

    def note(self, text: str) -> None:
        """Keep a sentence about something that cannot be seen, once."""
        self.unseen[text] = None

    @contextlib.contextmanager
    def cannot_see(self, why: str) -> Iterator[None]:
        """Within this context, in this thread, no value can be had, for the reason given."""
        before = getattr(self._apart, "why", None)
        self._apart.why = before or why
        try:
            yield
        finally:
            self._apart.why = before

    def sees(self) -> bool:
        """Whether values can be had of what is being carried out or built here; if not, it is noted why."""
        if (why := self.why_unseen()) is not None:
            self.note(why)
        return why is None

    @contextlib.contextmanager
    def drawing_nothing(self) -> Iterator[None]:
        """Within this context, in this thread, what is drawn is no draw of a replica's."""
        before, self._apart.draws = getattr(self._apart, "draws", True), False
        try:
            yield
        finally:
            self._apart.draws = before

    @property
    def draws_nothing(self) -> bool:
        """Whether what is drawn in this thread is no draw of a replica's: an initial value, or noise of ours."""
        return self.registry.is_making or self.is_quiet() or not getattr(self._apart, "draws", True)

    def why_unseen(self) -> str | None:
        """Why no value can be had of what is being carried out or built here; None if it can."""
        import tensorflow as tf
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import control_flow_util

        if (why := getattr(self._apart, "why", None)) is not None:
            return str(why)
        if self.threads.is_aside:
            return "what threads of the program's own do"
        if tf.executing_eagerly():
            return None
        graph = ops.get_default_graph()
        if control_flow_util.GraphOrParentsInXlaContext(graph):
            return "values inside of a function with jit_compile=True, which holds no Python"
        return None
