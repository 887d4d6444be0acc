"""Functions that a program calls besides its step and that change variables without training, as an evaluation does.

Each is looked at like the step: traced, not carried out, with stand-ins for its results. What keeps every variable what
it is on one device may come between two steps as often as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from harness.evidence.step_graph import StepGraph
from harness.recording.tracing.process import TracedProcess
from harness.recording.tracing.step_function import StepFunction
from harness.recording.tracing.trace_notes import TraceNotes

__all__ = ["OtherFunctions"]

_FUNCTIONS_MAX = 4


class OtherFunctions:
    """Knows them.

    Args:
        process: whose calls.
        noted: what is heard of the program; each call is noted there, in its order.
        differentiated: whether a tape has been asked for gradients since the last function was traced.
    """

    def __init__(self, process: TracedProcess, noted: TraceNotes, differentiated: Callable[[], bool]) -> None:
        self._process, self._noted, self._differentiated = process, noted, differentiated
        self._found: list[tuple[StepFunction, StepGraph]] = []

    @property
    def changed(self) -> list[Any]:
        """Handles of the variables that they may change."""
        return [handle for stepping, _ in self._found for handle in stepping.changed]

    @property
    def traced(self) -> tuple[StepGraph, ...]:
        """What was traced of each, in the order in which they were called first."""
        return tuple(
            msgspec.structs.replace(traced, doubts=tuple(stepping.asked), lengths=tuple(map(tuple, stepping.lengths)))
            for stepping, traced in self._found
        )

    def __contains__(self, function: Any) -> bool:
        return any(stepping.function is function for stepping, _ in self._found)

    def again(self, function: Any, given: Any) -> Any:
        """What stands in for the results of another call."""
        ((stepping, traced),) = [each for each in self._found if each[0].function is function]
        self._note(function)
        return stepping.again(traced, function, given)

    def begin(self, function: Any, args: Any, options: Any) -> tuple[bool, Any]:
        """Whether such a function may come between two steps, and what stands in for the results of its first call.

        One that takes gradients may not: it is another step.
        """
        stepping = StepFunction(self._process, self._noted, beside=True)
        if len(self._found) == _FUNCTIONS_MAX:
            return False, None
        try:
            concrete = stepping.concrete(function, args, options)
            if self._differentiated():
                return False, None
            traced, result = stepping.begin(function, concrete, (args, options), 0.0)
        except Exception:  # noqa: BLE001 - whatever cannot be traced, or taken apart, is not known
            return False, None
        self._found.append((stepping, traced))
        self._note(function)
        return True, result

    def _note(self, function: Any) -> None:
        self._noted.changed.append(f"function {getattr(function, '__name__', '')!r} is called")
