"""Where closures are scheduled that a script neither joins nor fetches before it saves, ends or changes a variable."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.evidence.stand_ins import UNFINISHED, UNJOINED
from harness.recording.assigned_values import assignments_heard
from harness.recording.closures import listening
from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns


class _Open:
    """Closures that were scheduled and neither joined nor fetched, and what was saved meanwhile."""

    def __init__(self, stand_ins: StandIns, trains: Callable[[Any], bool], tell: Callable[[str], None]) -> None:
        self._stand_ins = stand_ins
        self._tell = tell
        self._trains = trains
        # By the value that the closure gives, which is kept so that no other one gets its id.
        self._open: dict[int, tuple[Any, Any, str]] = {}
        self._since: list[Any] = []
        self._lacking: tuple[str, ...] = ()

    def scheduled(self, value: Any, function: Any, *, updates: bool) -> None:
        self._open[id(value)] = value, function, self._stand_ins.line()
        self._since.append(function)

    def joined(self) -> None:
        self._open.clear()

    def fetched(self, value: Any) -> None:
        self._open.pop(id(value), None)

    def taken_back(self) -> None:
        """It is open still."""

    def read(self) -> None:
        """The script reads a metric, which may lack what is open."""
        if self._open:
            self._tell(
                f"whether what {self._stand_ins.line()} reads before coordinator.join() has all that was scheduled"
            )

    def assigned(self, variable: Any) -> None:
        """A variable gets a value; if the script itself gives it, nobody knows whether what is open sees it."""
        import tensorflow as tf

        if self._open and tf.executing_eagerly() and threading.current_thread() is threading.main_thread():
            handle = id(variable.handle)
            using = [where for _, function, where in self._open.values() if handle in _captured(function)]
            self._note(UNJOINED, f"{self._stand_ins.line()} assigns what they use", dict.fromkeys(using))

    def saved(self) -> None:
        """A save is at its end; what is open may not be in it."""
        self._lacking = self._training()
        self._note(UNJOINED, "it saves", dict.fromkeys(where for _, _, where in self._open.values()))
        self._since.clear()

    def ended(self) -> None:
        """The script is at its end, and what is open will not be done; nor is its last save made again."""
        self._note(UNFINISHED, "the script ends", self._training())
        if not any(map(self._trains, self._since)):
            self._note(UNFINISHED, "it saves for the last time", self._lacking)
        self._note(UNJOINED, "the script ends", dict.fromkeys(where for _, _, where in self._open.values()))
        self._open.clear()

    def _training(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(where for _, function, where in self._open.values() if self._trains(function)))

    def _note(self, what: str, when: str, places: Iterable[str]) -> None:
        for where in places:
            self._stand_ins.note(f"{what} {when}", "those that are done", "unknown", where)


@contextlib.contextmanager
def joins_noted(
    stand_ins: StandIns, trains: Callable[[Any], bool], tell: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Within this context note where closures are scheduled that are neither joined nor fetched before that matters.

    Args:
        stand_ins: where it is noted.
        trains: whether a function that was scheduled has made a step.
        tell: gets a sentence about what the script reads before they are.

    Yields:
        To be called at the end of the script, when they have to be too.
    """
    from simulator.agent.saves.saves import listen

    open_ = _Open(stand_ins, trains, tell)
    listen(lambda path, restores: None if restores else open_.saved())
    with listening(open_), _reads_noted(open_), assignments_heard(open_.assigned):
        yield open_.ended


@contextlib.contextmanager
def _reads_noted(open_: _Open) -> Iterator[None]:
    """Within this context it is noted where the script reads a metric of the Kerases that have been imported."""
    import tensorflow as tf

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def result(*args: Any, **options: Any) -> Any:
            if tf.executing_eagerly():
                open_.read()
            return original(*args, **options)

        return result

    with contextlib.ExitStack() as stack:
        for name in ("keras", "tf_keras"):
            for kind in _metrics(sys.modules[name].metrics) if name in sys.modules else ():
                stack.enter_context(patched(kind, "result", around))
        yield


def _captured(function: Any) -> set[int]:
    """The tensors, such as handles of variables, that the graphs of a function have captured, by `id`."""
    traced: Iterable[Any] = getattr(function, "_list_all_concrete_functions", tuple)()
    return {id(outside) for each in traced for outside, _ in each.graph.captures}


def _metrics(module: Any) -> Iterator[Any]:
    """The classes by whose own `result` metrics are read: tf_keras does not export the one of its `Mean`."""
    exported = (each for each in vars(module).values() if isinstance(each, type) and issubclass(each, module.Metric))
    found = (kind for each in exported for kind in each.__mro__ if issubclass(kind, module.Metric))
    yield from (kind for kind in dict.fromkeys(found) if "result" in vars(kind))
