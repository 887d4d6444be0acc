"""What the copies of a variable are set to that the evidence of a run holds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.recording.steps.state import values_of


def _task(how: str, *copies: float, name: str = "moving_mean") -> tuple[Any, Any]:
    """A task that holds a variable; of equal copies one is stored."""
    reader = SimpleNamespace(array=lambda stored: np.array([stored], np.float32))
    return reader, SimpleNamespace(name=name, how=how, copies=copies)


def test_a_sum_is_all_of_it_or_what_each_replica_has() -> None:
    """Of several replicas that compute as those of the run did, each has its own part."""
    tasks = [_task("sum", 1.0, 3.0, name="w")]
    found = {as_they_are: values_of(tasks, 2, as_they_are=as_they_are) for as_they_are in (False, True)}
    assert {key: [value.tolist() for value in values] for key, values in found.items()} == {
        False: [[4.0]],
        True: [[1.0], [3.0]],
    }


@pytest.mark.parametrize(
    ("tasks", "replicas", "values"),
    [
        ([_task("own", 1.0, 3.0)], 2, [1.0, 3.0]),  # statistics of each replica's own
        ([_task("copies", 1.0)], 2, [1.0, 1.0]),  # synchronized ones
        ([_task("copies", 1.0), _task("copies", 3.0)], 2, [1.0, 3.0]),  # of each worker's own
        ([_task("copies", 1.0), _task("copies", 3.0)], 4, [1.0, 1.0, 3.0, 3.0]),
        ([_task("own", 1.0, 3.0)], 1, [2.0]),
        ([_task("copies", 1.0), _task("own", 3.0, 5.0)], 1, [2.5]),
        ([_task("own", 1.0, 3.0)], 4, []),  # of which nobody knows
        ([_task("own", 1.0, 3.0, name="w")], 1, []),
        ([_task("copies", 1.0, name="w")], 2, [1.0]),
        ([_task("sum", 1.0, 3.0, name="w")], 1, [4.0]),
    ],
)
def test_each_replica_has_its_own_of_statistics(
    tasks: list[tuple[Any, Any]], replicas: int, values: list[float]
) -> None:
    """One value stands for all copies."""
    assert [value.tolist() for value in values_of(tasks, replicas)] == [[each] for each in values]
