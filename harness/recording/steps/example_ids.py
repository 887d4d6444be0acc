"""Ids of examples that a program reports by what its replicas give back: those of the run, where it follows one.

Which examples one device would have had is told by the rows that it was given itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


class ExampleIds:
    """Remembers whole numbers that were given, and what was given up for them, until the program reports."""

    def __init__(self) -> None:
        self._given: dict[int, list[np.ndarray[Any, Any]]] = {}
        self._own: dict[int, list[np.ndarray[Any, Any]]] = {}

    def add(self, leaf: int, given: np.ndarray[Any, Any], own: np.ndarray[Any, Any]) -> None:
        """What a leaf of the arguments of `Strategy.run` was replaced by."""
        if given.dtype.kind in "iu" and given.ndim and own.ndim:
            self._given.setdefault(leaf, []).append(given.reshape(-1))
            self._own.setdefault(leaf, []).append(own.reshape(-1))

    def own(self, reported: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...] | None:
        """The ids that this process was given itself, if those that are reported came from the run; else None."""
        import numpy as np

        told = [number for ids in reported for number in ids]
        found = None
        for leaf, given in self._given.items():
            if np.concatenate(given).tolist() == told:
                found = (tuple(np.concatenate(self._own[leaf]).tolist()),)
                break
        self._given.clear()
        self._own.clear()
        return found
