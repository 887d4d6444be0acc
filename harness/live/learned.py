"""What judging the steps of a training teaches of the script: what it calls when, and what it calls its variables."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.evidence.own_state import Way
from harness.live.arrangement import Arrangement, arranged
from harness.live.composition import makes_variables

if TYPE_CHECKING:
    from harness.evidence.deposit import Training


class LearnedScript:
    """What is known of the script that made the steps of one training.

    Args:
        most: steps that it makes where none of those to be judged has a place.

    Attributes:
        is_late: whether the training began with variables that the script makes in its first step.
        way: in which one device began where steps were right; None where nobody knows.
        names: what it calls variables of the training, where it is otherwise.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._noted: tuple[str, ...] = ()
        self._order: tuple[str, ...] = ()
        self._called: dict[int, str] = {}
        self.is_late = False
        self.way: Way | None = None
        self.names: Mapping[str, str] = {}

    def arranged(self, training: Training, steps: Sequence[int]) -> Arrangement:
        """Which of its own steps the script makes of these."""
        reader = training.readers()[0][1]
        functions, making = dict.fromkeys(steps, ""), set()
        for number in steps:
            with contextlib.suppress(OSError, ValueError):  # which is said where it is judged
                if (step := reader.step(number)) is not None:
                    functions[number] = step.function
                    self._noted = max(self._noted, step.order, key=len)
                    is_first = number == 1 and not self.is_late
                    making.update([number] if is_first or makes_variables(step) else [])
        order = self._order or self._noted
        return arranged(functions, order, self._most, making, self._fillers(training, order))

    def _fillers(self, training: Training, order: Sequence[str]) -> Mapping[str, int]:
        """By function of those that the script calls a step that was left of it."""
        known, steps, reader = self._called, training.steps, training.readers()[0][1]
        if {*order} - {known[step] for step in steps if step in known}:
            for step in steps:
                with contextlib.suppress(OSError, ValueError):  # as above
                    if step not in known and (found := reader.step(step)) is not None:
                        known[step] = found.function
        return {known[step]: step for step in reversed(steps) if step in known}

    def learns(self, chosen: Arrangement, order: Sequence[str]) -> bool:
        """Whether a step was not the function that it had been, and more is known of which the script calls when."""
        if not any(chosen.misplaced(order)) or len(order) <= len(self._order):
            return False
        self._order = tuple(order)
        return True
