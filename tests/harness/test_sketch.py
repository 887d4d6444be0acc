"""Sketches of large values stand in the relations that the values stand in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.evidence.sketch import sketch
from harness.judging.culprit.relations import PARTIAL, REPLICATED, SPLIT, Relation, holding

_VALUE = np.random.default_rng(0).normal(size=(6, 40, 500)).astype(np.float32)


def _allowed(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.full(sketch(value).shape, 64 * 2.0**-23 * np.abs(sketch(value)).max())


def test_rows_stay_rows() -> None:
    """The sketches of the replicas' rows are rows of the sketch."""
    parts = [sketch(_VALUE[:4]), sketch(_VALUE[4:])]
    assert Relation(SPLIT) in holding(sketch(_VALUE), parts, _allowed(_VALUE))


def test_sums_stay_sums() -> None:
    """The sketches of parts add up to the sketch of their sum."""
    share = np.random.default_rng(1).normal(size=_VALUE.shape).astype(np.float32)
    parts = [sketch(share), sketch(_VALUE - share)]
    assert Relation(PARTIAL) in holding(sketch(_VALUE), parts, _allowed(_VALUE))


@pytest.mark.parametrize("off", [1e-2, 1.0])
def test_one_wrong_number_of_twenty_thousand_is_seen(off: float) -> None:
    """The control: an error of a hundredth does not drown in a sum."""
    wrong = _VALUE.copy()
    wrong[5, 39, 499] += off
    parts = [sketch(wrong[:4]), sketch(wrong[4:])]
    assert not holding(sketch(_VALUE), parts, _allowed(_VALUE))


def test_a_sketch_is_small_and_the_same_each_time() -> None:
    """Processes that know nothing of each other make the same sketch."""
    assert sketch(_VALUE).shape == (6, 16)
    assert np.array_equal(sketch(_VALUE), sketch(_VALUE))


def test_a_list_of_numbers_is_one_row() -> None:
    """Of which parts add up, or everybody has the same; a share of the list has sums of its own."""
    value = _VALUE.reshape(-1)
    share = (0.3 * value).astype(np.float32)
    assert sketch(value).shape == (1, 16)
    assert Relation(PARTIAL) in holding(sketch(value), [sketch(share), sketch(value - share)], _allowed(value))
    assert Relation(REPLICATED) in holding(sketch(value), [sketch(value)] * 2, _allowed(value))
    assert not holding(sketch(value), [sketch(value), sketch(share)], _allowed(value))


def test_a_row_of_any_length_is_summed_in_one_order() -> None:
    """A piece at a time gives the bits of all at once."""
    value = np.random.default_rng(2).normal(size=(1 << 20) + 5).astype(np.float32)
    signs = np.random.default_rng(len(value)).integers(0, 2, size=len(value), dtype=np.int8) * 2 - 1
    signed = np.zeros(-(-len(value) // 16) * 16)
    signed[: len(value)] = signs * value
    sums = signed.reshape(-1, 16).sum(axis=0) / (len(value) / 16) ** 0.5
    assert np.array_equal(sketch(value), [sums.astype(np.float32)])
