"""What everybody who listens to a program in a process knows of it: whose replicas, and what its values are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.recording.tracing.arguments import Handles, Yielded
from harness.recording.watch.places import Places
from harness.recording.watch.variables import Variables


class TracingDone(BaseException):
    """Ends a program of which there is nothing more to see; nothing that a program catches."""


class TracedProcess:
    """One client.

    Attributes:
        task: its name.
        replicas: of all clients together.
        first: the number of the first replica of this one.
        places: tells the program's own lines.
        handles: tells variables.
        yielded: tells examples.
    """

    def __init__(self, task: str, replicas: int, first: int) -> None:
        self.task, self.replicas, self.first = task, replicas, first
        self.places = Places()
        self._variables = Variables(self.places.caller)
        self.handles = Handles(self._variables, first)
        self.yielded = Yielded()

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Get to know them in this context."""
        with self._variables.active(), self.handles.active(), self.yielded.active():
            yield
