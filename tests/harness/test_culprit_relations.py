"""Relations of replicas' values to the reference's: what is made to hold is found, and what does not is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.judging.culprit.example_order import other_examples
from harness.judging.culprit.relations import (
    LARGEST,
    PARTIAL,
    REPLICATED,
    SMALLEST,
    SPLIT,
    ExampleOrder,
    Relation,
    holding,
)

_TOLERANCE = 1e-5


@st.composite
def _values(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], int, np.random.Generator]:
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.lists(st.integers(2, 5), min_size=1, max_size=3))
    return random.normal(size=shape).astype(np.float32), draw(st.integers(2, 4)), random


@given(_values(), st.integers(-2, 2))
@settings(max_examples=40, deadline=None)
def test_parts_that_add_up_are_partial(drawn: Any, power: int) -> None:
    """Whatever the shares, and also up to a power of the number of replicas."""
    value, replicas, random = drawn
    shares = [random.normal(size=value.shape).astype(np.float32) for _ in range(replicas - 1)]
    factor = float(replicas) ** power
    parts = [*shares, (factor * value - np.sum(shares, axis=0)).astype(np.float32)]
    found = holding(value, parts, np.full(value.shape, _TOLERANCE))
    assert Relation(PARTIAL, power) in found
    assert not any(each.kind in (REPLICATED, SPLIT) for each in found)


@given(_values(), st.integers(-2, 2))
@settings(max_examples=40, deadline=None)
def test_the_same_in_each_replica_is_replicated(drawn: Any, power: int) -> None:
    """Also up to a power; only without one it is the largest as well."""
    value, replicas, _ = drawn
    copies = [(float(replicas) ** power * value).astype(np.float32)] * replicas
    found = holding(value, copies, np.full(value.shape, _TOLERANCE))
    assert Relation(REPLICATED, power) in found
    assert (Relation(LARGEST) in found) is (power == 0)


@given(_values(), st.data())
@settings(max_examples=40, deadline=None)
def test_rows_of_a_batch_are_split_in_whatever_order(drawn: Any, data: st.DataObject) -> None:
    """If the order is known; without it they are in no relation."""
    value, _, random = drawn
    axis = data.draw(st.integers(0, value.ndim - 1))
    rows = random.permutation(value.shape[axis])
    cut = data.draw(st.integers(0, len(rows)))
    parts = [np.take(value, rows[:cut], axis), np.take(value, rows[cut:], axis)]
    allowed = np.full(value.shape, _TOLERANCE)
    assert Relation(SPLIT, 0, axis) in holding(value, parts, allowed, ExampleOrder(tuple(rows)))
    if list(rows) != sorted(rows) and (cut, len(rows)) != (2, 4):  # else each may have two views of one example
        assert Relation(SPLIT, 0, axis) not in holding(value, parts, allowed)


@pytest.mark.parametrize("views", [2, 3])
def test_views_of_all_examples_come_after_one_another(views: int) -> None:
    """As in contrastive learning, where each replica has the first crops of its images before the second ones."""
    value = np.random.default_rng(2).normal(size=(4 * views, 3)).astype(np.float32)
    of_each = [np.concatenate([value[4 * k + first :][:2] for k in range(views)]) for first in (0, 2)]
    assert Relation(SPLIT) in holding(value, of_each, 0.0)
    assert Relation(SPLIT) not in holding(value, [of_each[0][::-1], of_each[1]], 0.0)


def test_blocks_of_rows_move_together() -> None:
    """As of what is reshaped from a batch of sequences to a batch of tokens."""
    value = np.arange(12.0).reshape(6, 2)
    parts = [value[[0, 1, 4, 5]], value[[2, 3]]]
    assert Relation(SPLIT) in holding(value, parts, 0.0, ExampleOrder((0, 2, 1)))


def test_the_largest_and_the_smallest() -> None:
    """Of values of which one is the reference's and none beyond it."""
    small, value, large = (np.array(each, np.float32) for each in (1.0, 3.0, 7.0))
    assert Relation(LARGEST) in holding(value, [value, small], 0.0)
    assert Relation(SMALLEST) in holding(value, [value, large], 0.0)


@pytest.mark.parametrize("off", [1e-3, 1.0])
def test_an_error_ends_every_relation(off: float) -> None:
    """In one number of eighteen."""
    value = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
    parts = [value[:3], value[3:].copy()]
    parts[1][0, 0] += off
    assert not holding(value, parts, np.full(value.shape, _TOLERANCE))


def test_nan_is_in_relation_to_nan_only() -> None:
    """A run that is not finite where its reference is stands in no relation."""
    value = np.array([1.0, np.nan])
    assert Relation(REPLICATED) in holding(value, [value, value], 0.0)
    assert Relation(REPLICATED) not in holding(value, [value, np.array([1.0, 2.0])], 0.0)
    assert not holding(np.array([1.0, 2.0]), [value, value], 0.0)


@pytest.mark.parametrize(
    ("second", "is_other"),
    [
        ([[0, 3], [0, 5], [1, 2]], False),  # rows 2 and 3 of the batch
        ([[0, 3], [0, 5], [1, 4]], True),  # another place
        ([[0, 3], [1, 5], [1, 2]], True),  # another row
        ([[0, 3], [0, 5]], True),  # one is missing
    ],
)
def test_each_replica_counts_the_rows_of_its_sparse_examples_from_zero(second: list[list[int]], is_other: bool) -> None:
    """Their indices are those of the batch, but for where the replica's rows begin."""
    whole = np.asarray([[0, 1], [1, 4], [2, 3], [2, 5], [3, 2]])
    assert other_examples([([whole[:2], np.asarray(second)], whole)]) is is_other


@pytest.mark.parametrize(("wrong", "held"), [(None, True), ((0, 2), False), ((4, 1), False)])
def test_rows_that_each_replica_pads_are_split(wrong: tuple[int, int] | None, held: bool) -> None:
    """As far as they go: one device pads all of them to the longest."""
    value = np.arange(1.0, 21.0, dtype=np.float32).reshape(5, 4)
    given_rows = value.copy()
    if wrong is not None:
        given_rows[wrong] += 1
    parts = [given_rows[:3, :3], given_rows[3:]]
    assert (Relation(SPLIT) in holding(value, parts, np.full(value.shape, _TOLERANCE))) is held
    assert not holding(value, [parts[0], parts[1][:1]], np.full(value.shape, _TOLERANCE))
