"""Which step what has waited belongs to, told by the time at which it came."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from harness.recording.witness._value_buffer import BufferedWords, ClockSetBack, Stamp, ValueBuffer

_WORDS = np.zeros(1, np.int64)
_STEP_NS = 1_000_000


class _Filled(ValueBuffer):
    """In which something has come at these times of day, in steps."""

    def __init__(self, *times: float) -> None:
        super().__init__()
        self._times = list(times)

    def _fetched(self) -> Iterator[BufferedWords]:
        times, self._times = self._times, []
        return iter([BufferedWords(at, round(at * _STEP_NS), _WORDS) for at in times])


def _stamp(day: float, steady: float | None = None, *, still: float = 0.0) -> Stamp:
    """Read at this time of day; the process stood still so long before it looked at the steady clock again."""
    after = day if steady is None else steady
    return Stamp(round(day * _STEP_NS), round(after * _STEP_NS), round((after + still) * _STEP_NS))


def test_what_came_in_a_call_is_of_its_step() -> None:
    """What came before, between or of another call is nobody's, and what came later is kept."""
    waiting = _Filled(0.5, 1.2, 1.4, 2.5, 3.1, 4.5)
    found = waiting.fetch([(_stamp(1), _stamp(2)), (_stamp(3), _stamp(4))])
    assert [(place, label) for place, label, _ in found] == [(0, 1.2), (0, 1.4), (1, 3.1)]
    assert [(place, label) for place, label, _ in waiting.fetch([(_stamp(4.2), _stamp(5))])] == [(0, 4.5)]


def test_a_clock_that_is_set_back_tells_nothing() -> None:
    """By half a step: what came in the first would be taken for something of the time before it."""
    with pytest.raises(ClockSetBack):
        _Filled(0.9).fetch([(_stamp(1), _stamp(1.5, 2)), (_stamp(2.5, 3), _stamp(3.5, 4))])


@pytest.mark.parametrize("still", [(0.0, 0.5), (0.5, 0.0), (0.5, 0.5)])
def test_a_process_that_stood_still_between_two_looks_is_no_matter(still: tuple[float, float]) -> None:
    """No clock was set."""
    one, other = (_stamp(time, still=seconds) for time, seconds in zip((1, 2), still, strict=True))
    assert [place for place, _, _ in _Filled(1.5).fetch([(one, other)])] == [0]


@pytest.mark.parametrize("rate", [0.9995, 1.0005, 2.0])
def test_a_clock_that_is_brought_to_the_right_time_is_no_matter(rate: float) -> None:
    """However it is hurried; it is slowed down by less than a thousandth."""
    spans = [(_stamp(rate * step, step), _stamp(rate * (step + 1), step + 1)) for step in range(0, 10_000, 1000)]
    assert [place for place, _, _ in _Filled(rate * 2000.5).fetch(spans)] == [2]
