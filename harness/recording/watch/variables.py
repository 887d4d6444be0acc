"""Which variable a handle belongs to, and whether the strategy keeps its copies alike."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from harness.evidence.watched_step import WatchedVariable
from harness.recording.noise.protocol import patched

_COPY = re.compile(r"/replica_\d+")


class Variables:
    """Knows every variable that is made within `active`, by its handle.

    Args:
        caller: tells the frame of the program's own that makes one.
    """

    def __init__(self, caller: Callable[[], int | None]) -> None:
        self._caller = caller
        self._made: dict[str, int | None] = {}
        self._rows: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._kinds: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, int] = {}

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Hear of variables that are made in this context."""
        from tensorflow.python.distribute import values
        from tensorflow.python.ops import resource_variable_ops

        def plain(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(variable: Any, *args: Any, **options: Any) -> None:
                original(variable, *args, **options)
                self._note(variable)

            return create

        def several(original: Callable[..., Any]) -> Callable[..., Any]:
            def create(variable: Any, *args: Any, **options: Any) -> None:
                original(variable, *args, **options)
                on_read = isinstance(variable, values.SyncOnReadVariable)
                handles = [copy.handle for copy in variable._values]  # noqa: SLF001 - the copies in this process
                name = next(filter(None, map(self.name, handles)), None)
                if name is not None:
                    # Of one without a name each copy is known by its own count of those that have none either.
                    self._names.update({key: name for handle in handles if (key := _key(handle)) is not None})
                    self._kinds[name] = ("on_read" if on_read else "mirrored", variable.aggregation.name)

            return create

        with contextlib.ExitStack() as stack:
            stack.enter_context(patched(resource_variable_ops.BaseResourceVariable, "__init__", plain))
            stack.enter_context(patched(values.DistributedVariable, "__init__", several))
            yield

    def _note(self, variable: Any) -> None:
        handle = getattr(variable, "handle", None)
        if (key := _key(handle)) is None or key in self._names:
            return
        full = variable.name.partition(":")[0]
        name = _COPY.sub("", full)
        # Several variables may have one name; the copies of each come in the same order.
        count = self._counts[full] = self._counts.get(full, 0) + 1
        name = name if count == 1 else f"{name}#{count}"
        self._names[key] = name
        if name not in self._made:
            self._made[name] = self._caller()
            self._rows[name] = next(iter(variable.shape), None) or 0 if variable.shape.rank else 0

    def name(self, handle: Any) -> str | None:
        """The name of the variable that a handle belongs to, in whatever graph it has been captured."""
        outer = outermost(handle)
        key = _key(outer)
        return None if key is None else self._names.get(key)

    def kinds(self) -> tuple[WatchedVariable, ...]:
        """All variables."""
        found = []
        for name in dict.fromkeys(self._names.values()):
            kind, aggregation = self._kinds.get(name, ("plain", "NONE"))
            found.append(WatchedVariable(name, kind, aggregation, self._made[name], self._rows[name]))
        return tuple(found)


def _key(handle: Any) -> int | None:
    return getattr(handle, "_id", None)


def outermost(handle: Any) -> Any:
    """Follow a captured handle out of its graphs."""
    while (graph := getattr(handle, "graph", None)) is not None and hasattr(graph, "captures"):
        found = next((outer for outer, inner in graph.captures if inner is handle), None)
        if found is None:
            return handle
        handle = found
    return handle
