"""Whether what this process calls is what a run called in steps that were taken out of a longer training."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from harness.evidence.steps import RunStep
from harness.recording.steps.call_numbers import with_numbers
from harness.recording.steps.protocol import StepEnd

_OTHER = "the run called another function of the script in this step, or spelled its arguments otherwise"
_FED = "it is given what an earlier call of the program has computed"
_MADE = "its call makes variables, which begin here with values of their own"
_FILLS = "it only fills a place, so that what later steps change is there"


class SingleCalls:
    """Keeps what is called, and what was called in the step that began last.

    Attributes:
        function: of that step, as of `Steps`.
    """

    def __init__(self) -> None:
        self.function = self._called = ""
        self._is_fed = self._fed = False

    def called(
        self, function: str, arguments: Sequence[Any], following: RunStep, fed: Collection[int]
    ) -> Sequence[Any] | None:
        """As of `Steps`, where `following` is the step that this is if it is one."""
        self._called, self._fed = function, bool(fed)
        if function != following.function:
            return None
        found, given = with_numbers(arguments, following.numbers, following.arrays)
        self._fed = not given.issuperset(fed)
        return found

    def begin(self) -> None:
        """What was called last is a step."""
        self.function, self._is_fed = self._called, self._fed

    def is_called(self, step: RunStep) -> bool:
        """Whether what was called last is what the run called in a step."""
        return step.function == self._called

    def apart(self, step: RunStep, how: StepEnd) -> Iterator[str]:
        """Why the step that began last is not one of the run's."""
        if step.original is None:
            return
        if step.fills:
            yield _FILLS
        if step.function not in ("", self.function):
            yield _OTHER
        if step.fed or self._is_fed:
            yield _FED
        if how.makes_weights:
            yield _MADE
