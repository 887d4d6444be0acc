"""A step in which one device overflows and replicas do not is not judged, if their numbers are the same otherwise."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.parts import Part, Parts
from harness.evidence.reference import Reference
from harness.evidence.trace import Array, RunTrace, Seen, Value
from harness.judging.align import aligned_cases
from harness.judging.align.overflow import overflown
from tests.harness._traces import client, step

_INF = float("inf")


def _run(*replicas: list[float], clients: int = 1) -> RunTrace:
    """Gradients of one step on all replicas, which are of one client or of one each."""
    each = [replicas] if clients == 1 else [[replica] for replica in replicas]
    return RunTrace(tuple(client(step(1, seen=Seen(1, 1.0, gradients=(_value(parts),)))) for parts in each))


def _value(parts: Any) -> Value:
    return Value("w", tuple(Array.of(np.array(part, np.float32)) for part in parts), per_replica=True)


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize(
    ("one", "replicas", "apart"),
    [
        ([_INF, 3.0], ([4e4, 1.0], [4e4, 2.0]), True),  # their sum
        ([_INF, 3.0], ([6e4, 2.0], [6e4, 4.0]), True),  # their mean
        ([_INF, 3.0], ([4e4, 0.5], [4e4, 1.0]), False),  # half of it
        ([_INF, 3.0], ([4e4, 2.0], [4e4, 4.0]), True),
        ([_INF, 3.0], ([_INF, 1.0], [4e4, 2.0]), False),
        ([_INF, 3.0], ([_INF, 1.0], [_INF, 2.0]), False),
        ([_INF, _INF], ([4e4, 1.0], [4e4, 2.0]), True),  # nobody knows
        ([_INF, _INF], ([4e4, _INF], [4e4, 2.0]), False),
        ([_INF, 0.0], ([4e4, 0.0], [4e4, 0.0]), False),
        ([8e4, 3.0], ([4e4, 1.0], [4e4, 2.0]), False),
        ([8e4, 3.0], ([_INF, 1.0], [4e4, 2.0]), False),
    ],
)
def test_an_overflow_of_one_device_alone(one: list[float], replicas: Any, apart: bool, clients: int) -> None:
    """A run that overflows itself is judged, and one that has other numbers."""
    assert bool(overflown(_run(one), _run(*replicas, clients=clients))) is apart


def test_where_no_gradient_was_seen_nothing_is_apart() -> None:
    """Nothing tells of an overflow then."""
    assert not overflown(RunTrace((client(step(1)),)), _run([1.0]))
    assert not overflown(_run([_INF]), RunTrace((client(step(1)),)))


def test_it_is_known_in_each_part_of_a_run() -> None:
    """The steps before an interruption are judged by themselves."""
    first, last = _run([4e4, 1.0], [4e4, 2.0]), _run([1.0, 1.0], [1.0, 2.0])
    one = [_seen(1, [_INF, 3.0]), _seen(2, [2.0, 3.0])]
    made = client(step(1), step(2))
    header = msgspec.structs.replace(made.header, follows=True)
    followed = RunTrace((msgspec.structs.replace(made, header=header, seen=tuple(one)),))
    cases = aligned_cases(Parts(last, (Part(first, 1, 1),), ("ckpt-1",), must_resume=True), Reference(followed))
    assert [list(case.apart) for case in cases] == [[1], [1]]


def _seen(number: int, gradient: list[float]) -> Seen:
    return Seen(number, float(number), after=number - 1, gradients=(_value([gradient]),))
