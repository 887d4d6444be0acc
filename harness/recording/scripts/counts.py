"""The number of replicas, or workers, as the script of a reference reads it: one that knows where it is used.

The only replica of a reference has the whole batch. So a batch that is `32 * n` is that of all replicas, and a learning
rate that is `0.1 * n` is the cluster's; but what a replica divides by `n` is to be divided by one here: the cluster's
parts add up to what this replica has by itself. Where neither is certain, the verdict says which line it was.
"""

from __future__ import annotations

import contextlib
import dis
import json
import numbers
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from harness.evidence.stand_ins import COUNT, DIVIDES, DIVIDES_WHOLE, WORKERS
from harness.recording.patches import patched
from harness.recording.scripts.stand_ins import StandIns


class ReplicaCount:
    """Not an `int`: `1.0 / n` would not ask one.

    Args:
        replicas: of the cluster.
        stand_ins: hears of each use.
        name: of what it is the number.
    """

    def __init__(self, replicas: int, stand_ins: StandIns, name: str = COUNT) -> None:
        self._replicas = replicas
        self._stand_ins = stand_ins
        self._name = name
        # A coordinator's workers take turns at its closures, in the reference too: nobody adds up what they have.
        self._takes_turns = name == WORKERS and bool(stand_ins.script.ps)

    def taken(self, how: str, count: int, trust: str = "sure", multiplied: int = 0) -> int:
        """The number for a use, which is listed; what the user assumes at its line is certain."""
        where = self._stand_ins.line()
        assumed = self._stand_ins.assumed(where)
        if assumed is not None:
            count, trust = assumed, "sure"
        elif count == 1 and self._takes_turns:
            count, trust = self._replicas, "sure"
        self._stand_ins.note(f"{self._name} {how}", count, trust, where, multiplied * count)
        return count

    @property
    def _inside(self) -> bool:
        import tensorflow as tf

        # Without any strategy it is the only replica of the default one.
        return tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()

    def _as_whole(self, how: str, trust: str = "sure") -> int:
        """Of a size or a count."""
        return self.taken("in a replica", 1, "assumed") if self._inside else self.taken(how, self._replicas, trust)

    def __index__(self) -> int:
        if self._inside:
            return self.taken("in a replica", 1, "assumed")
        # Of replicas something may be done by each; workers are counted for more than that, as for lines of a log.
        return self.taken("as a count", self._replicas, "assumed" if self._name == COUNT else "meant")

    def __int__(self) -> int:
        asks = sys._getframe(1)  # noqa: SLF001 - what asks is all that is to be known
        if _is_formatted(asks):
            return self._replicas
        if _is_attribute(asks):
            return self._as_whole("as a number of parts")
        return self._plainly("by int()")

    def __float__(self) -> float:
        return float(self._plainly("by float()"))

    def _plainly(self, how: str) -> int:
        """As a number of which nobody knows what is done with it."""
        if self._inside:  # a divisor, or a rate
            return self.taken("in a replica", 1, "assumed")
        return self.taken(how, self._replicas, "unknown")

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        import tensorflow as tf

        return tf.constant(self._plainly("as a tensor"), dtype=dtype or tf.int32, name=name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.array(self._plainly("as an array"), dtype=dtype)

    def __round__(self, digits: int | None = None) -> int:
        return round(self._plainly("by round()"), digits)

    def __neg__(self) -> int:
        return -self._plainly("by a sign")

    def __abs__(self) -> int:
        return self._plainly("by abs()")

    def __hash__(self) -> int:
        return hash(self._replicas)

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return str(self._replicas)

    def __repr__(self) -> str:
        return str(self._replicas)

    def __format__(self, spec: str) -> str:
        return format(self._replicas, spec)

    def divides(self, other: Any) -> Any:
        """`other / n` and `other // n` of a tensor: the parts of replicas, or what they add up to."""
        return self.taken(DIVIDES, 1)

    def __rtruediv__(self, other: Any) -> Any:
        if self._inside or not isinstance(other, (int, float)):
            return other / self.taken("divides", 1)
        if isinstance(other, int) and other > 1 and other % self._replicas == 0:
            return other / self.taken(DIVIDES_WHOLE, self._replicas)
        return other / self.taken(f"divides {other:g}", 1 if other == 1 else self._replicas, "unknown")

    def __rfloordiv__(self, other: Any) -> Any:
        return other // self._as_whole(DIVIDES_WHOLE)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, float) and other == 1.0:
            return other * self._plainly("by 1.0 *")
        if isinstance(other, int):  # such as the batch; a replica may divide by it what was added up already
            return other * self.taken("multiplies", self._replicas, "size" if self._inside else "sure", other)
        if isinstance(other, float) and not self._inside:
            return other * self.taken("multiplies", self._replicas, "meant")
        return other * self.taken("multiplies", self._replicas, "unknown")

    __rmul__ = __mul__


# TensorFlow and Keras ask this of a size, such as the number of parts of `tf.split`.
numbers.Integral.register(ReplicaCount)


@contextlib.contextmanager
def counts_in_json() -> Iterator[None]:
    """Within this context a count may be written as JSON, which says nothing of what is computed, as a log does."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def default(encoder: Any, value: Any) -> Any:
            return int(str(value)) if isinstance(value, ReplicaCount) else original(encoder, value)

        return default

    with patched(json.JSONEncoder, "default", around):
        yield


def _is_attribute(frame: FrameType) -> bool:
    """Whether TensorFlow asks for an attribute of an operation, such as the number of parts of `tf.split`."""
    from tensorflow.python.eager import execute

    return frame.f_code is execute.make_int.__code__


def _is_formatted(frame: FrameType) -> bool:
    """Whether a text is being made there by `"%d" % n`, which asks for a whole number as `int(n)` does."""
    offset, code = frame.f_lasti, frame.f_code.co_code
    return dis.opname[code[offset]].startswith("BINARY")


def _forward(name: str, function: Callable[..., Any], *, swapped: bool = False, trust: str = "meant") -> None:
    def method(self: ReplicaCount, other: Any) -> Any:
        own = self._as_whole("in arithmetic", trust)
        other = own if isinstance(other, ReplicaCount) else other
        return function(other, own) if swapped else function(own, other)

    setattr(ReplicaCount, name, method)


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _forward(f"__{_name}__", getattr(operator, _name), trust="sure")
for _name in ("add", "sub", "truediv", "floordiv", "mod", "pow"):
    _forward(f"__{_name}__", getattr(operator, _name))
for _name in ("add", "sub", "mod", "pow"):
    _forward(f"__r{_name}__", getattr(operator, _name), swapped=True)
_forward("__divmod__", divmod)
_forward("__rdivmod__", divmod, swapped=True)
