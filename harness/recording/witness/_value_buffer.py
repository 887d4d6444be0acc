"""What a graph hands over at every step waits in TensorFlow, and is fetched for many steps at once.

To wait there is one operation of TensorFlow's, where a call of Python out of the graph takes a thread from the step. To
ask after each call what has come would take 0.1 ms more, as the step has left nothing of Python in the caches of the
processor; so what waits bears the time at which it came. Graphs know the place by its name, as they know a `_switch`:
where one is saved, and loaded elsewhere, nobody fetches.
"""

from __future__ import annotations

import bisect
import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.recording.side_operations import run_beside
from harness.recording.witness._switch import FIRST, unique_name

if TYPE_CHECKING:
    import numpy as np


class ClockSetBack(Exception):
    """The time of day does not tell what came first."""

    def __init__(self) -> None:
        super().__init__("the clock of this machine was set back")


@dataclass(frozen=True)
class Stamp:
    """A moment: the time of day, which is what operations of TensorFlow can tell, and a clock that nobody sets.

    The process may have stood still between two looks at a clock: `day` was read at some time from `after` to `before`.
    """

    day: int
    after: int
    before: int


def stamp() -> Stamp:
    """Now, in ns."""
    after = time.monotonic_ns()
    # Not `time.time_ns`, which the harness moves for programs that shall find another time of day.
    day = time.clock_gettime_ns(time.CLOCK_REALTIME)
    return Stamp(day, after, time.monotonic_ns())


Span = tuple[Stamp, Stamp]


@dataclass(frozen=True)
class BufferedWords:
    """Words that waited: what they are, and when they came, in ns."""

    label: Any
    at: int
    words: np.ndarray[Any, Any]


class ValueBuffer:
    """Words of 8 bytes in the order in which graphs gave them, each time with something that says what they are."""

    def __init__(self) -> None:
        self._place = {"shared_name": unique_name("waiting"), "container": "", "capacity": 0, "memory_limit": 0}
        self._labels: list[Any] = []
        self._later: list[BufferedWords] = []

    @staticmethod
    def is_possible() -> bool:
        """Whether TensorFlow tells the time: a program that asks for deterministic operations is not to have it."""
        from tensorflow.python.framework import config

        return not config.is_op_determinism_enabled()

    def put(self, words: Sequence[Any], label: Any) -> None:
        """Have tensors of bytes, [words, 8], of the graph that is being built wait each time that this is run."""
        import tensorflow as tf

        with tf.device(FIRST):
            at = tf.timestamp()
            run_beside(at.op)
            head = tf.bitcast(tf.stack([at, tf.constant(len(self._labels), at.dtype)]), tf.uint8)
            run_beside(tf.raw_ops.Stage(values=[tf.concat([head, *words], 0)], **self._place))
        self._labels.append(label)

    def fetch(self, spans: Sequence[Span]) -> list[tuple[int, Any, np.ndarray[Any, Any]]]:
        """What came in each of these, which follow each other: its position, the label, and words as of int64.

        What came before or between is gone.

        Raises:
            ClockSetBack: it cannot be told.
        """
        came, self._later = [*self._later, *self._fetched()], []
        _check([each for span in spans for each in span])
        found, ends = [], [end.day for _, end in spans]
        for each in came:
            place = bisect.bisect_left(ends, each.at)
            if place == len(spans):
                self._later.append(each)
            elif each.at >= spans[place][0].day:
                found.append((place, each.label, each.words))
        return found

    def _fetched(self) -> Iterator[BufferedWords]:
        import numpy as np
        import tensorflow as tf

        if not self._labels:
            return
        # Out of the graph that may be being built: a step is looked at when another function is traced.
        with tf.init_scope(), tf.device(FIRST):
            count = int(tf.raw_ops.StageSize(dtypes=[tf.uint8], **self._place))
            # One by one: a function that takes many at once takes longer.
            arrays = [tf.raw_ops.Unstage(dtypes=[tf.uint8], **self._place)[0].numpy() for _ in range(count)]
        for array in arrays:
            words = array.reshape(-1).view(np.int64)
            at, label = words[:2].view(np.float64)
            yield BufferedWords(self._labels[int(label)], round(1e9 * at), words[2:])


_SLOWER = 1000
"""A clock that is brought to the right time without being set back is slowed down by less than its 1000th part."""

_SET_MIN_NS = 50_000
"""Nothing that waits is followed by the end of its call, or the begin of the next one, sooner than this."""


def _check(stamps: Sequence[Stamp]) -> None:
    for one, other in itertools.pairwise(stamps):
        passed = max(0, other.after - one.before)  # so much at least
        if other.day - one.day < passed - passed // _SLOWER - _SET_MIN_NS:
            raise ClockSetBack
