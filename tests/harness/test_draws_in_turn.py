"""Which draw of several replicas one replica has in a loop, whose turns are not all as long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.recording.steps.draw_checks import in_turn
from tests.harness._loop import LOOP, Verified


def _given(*rows: int) -> list[Any]:
    """What a replica was given in each call, of so many rows."""
    return [(None, SimpleNamespace(arrays=(SimpleNamespace(shape=(count, 3)),))) for count in rows]


@pytest.mark.parametrize(
    ("given", "replicas", "expected"),
    [
        ([(2, 1), (2, 1)], ["abc", "ABC"], "abABcC"),  # once for each row
        ([(2, 2), (2, 1)], ["abcd", "ABC"], "abABcdC"),
        ([(3, 0), (3, 2)], ["abc", "ABCDE"], "abcABCDE"),
        ([(5, 5), (5, 5)], ["abcd", "ABCD"], "abABcdCD"),  # equally often in each call
        ([(1, 1), (1, 1)], ["ab", "AB"], None),  # once in each call: all at once
        ([(5, 5), (5, 5)], ["abc", "ABC"], None),  # nobody knows
        ([], ["abcd", "ABCD"], "abcdABCD"),  # in one call, which was given nothing
    ],
)
def test_one_replica_draws_for_the_rows_of_one_after_the_other(
    given: list[tuple[int, ...]], replicas: list[str], expected: str | None
) -> None:
    """Call by call, as it has their rows."""
    place = [_given(*rows) for rows in given]
    calls = max(map(len, place), default=1)
    passes: Any = [list(each) for each in replicas]
    every: list[Any] = [
        in_turn(count, passes, [place] if place else [], calls) for count in range(len("".join(replicas)))
    ]
    found = [rest[0][0] for rest in every if rest]
    assert "".join(found) == (expected or "")
    assert not in_turn(sum(map(len, replicas)), passes, [place], calls)


@pytest.mark.full
@pytest.mark.parametrize("rows", [24, 28])
def test_draws_for_each_example_in_a_loop_over_batches(rows: int, verified: Verified) -> None:
    """Also where the last batch is not full: each is drawn by a seed of its own, as on one device."""
    loop = LOOP.replace("[24, 3]", f"[{rows}, 3]").replace("4 * strategy.num_replicas_in_sync", "8")
    weights = "tf.map_fn(lambda each: tf.random.stateless_uniform([], seed=tf.cast(100 * each[:2], tf.int32)), x)"
    loop = loop.replace("def step(x, y):\n", f"def step(x, y):\n    weights = {weights}\n")
    loop = loop.replace("tf.reduce_sum((tf.linalg", "tf.reduce_sum(weights * (tf.linalg")
    loop = loop.replace("def train(batch):\n    return", "def train(data):\n    for batch in data:\n        loss =")
    begin = loop.index("for _ in range")
    loop = loop[:begin] + "train(strategy.experimental_distribute_dataset(dataset))\n"
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.consistent, str(verdict)
