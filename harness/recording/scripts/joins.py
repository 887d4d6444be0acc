"""Where a script's closures are scheduled that it neither joins nor fetches before it saves, or ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.evidence.stand_ins import UNFINISHED, UNJOINED
from harness.recording.closures import listening
from harness.recording.scripts.stand_ins import StandIns

__all__ = ["joins_noted"]


class _Open:
    """Closures that were scheduled and neither joined nor fetched, and what was saved meanwhile."""

    def __init__(self, stand_ins: StandIns, trains: Callable[[Any], bool]) -> None:
        self._stand_ins = stand_ins
        self._trains = trains
        # By the value that the closure gives, which is kept so that no other one gets its id.
        self._open: dict[int, tuple[Any, Any, str]] = {}
        self._since: list[Any] = []
        self._lacking: tuple[str, ...] = ()

    def scheduled(self, value: Any, function: Any) -> None:
        self._open[id(value)] = value, function, self._stand_ins.line()
        self._since.append(function)

    def joined(self) -> None:
        self._open.clear()

    def fetched(self, value: Any) -> None:
        self._open.pop(id(value), None)

    def taken_back(self) -> None:
        """It is open still."""

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
def joins_noted(stand_ins: StandIns, trains: Callable[[Any], bool]) -> Iterator[Callable[[], None]]:
    """Within this context note where closures are scheduled that are neither joined nor fetched before a save.

    Args:
        stand_ins: where it is noted.
        trains: whether a function that was scheduled has made a step.

    Yields:
        To be called at the end of the script, when they have to be too.
    """
    from simulator.agent.saves.saves import listen

    open_ = _Open(stand_ins, trains)
    listen(lambda path, restores: None if restores else open_.saved())
    with listening(open_):
        yield open_.ended
