"""Numbers of examples: made of the fingerprints of their rows, wherever these stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.recording.witness import _rows

_WORDS = np.random.default_rng(3).integers(0, 256, (8, 8), dtype=np.uint8)
_LABELS = np.repeat(np.arange(2, dtype=np.uint8), 32).reshape(8, 8)


def examples_of(replicas: Sequence[Sequence[np.ndarray]]) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """As of fingerprints that stand tensor by tensor for each replica."""
    counts = np.array([[len(part) for part in tensors] for tensors in replicas])
    words = np.concatenate([part for tensors in replicas for part in tensors]).reshape(-1).view(np.int64)
    return _rows.examples_of(words, counts)


def _ids(*columns: np.ndarray) -> list[int]:
    found: list[int] = examples_of([columns])[1][0].tolist()
    return found


def test_an_example_has_its_number_in_whatever_batch() -> None:
    """Splitting, reordering and repeating rows does so with their numbers."""
    whole = _ids(_WORDS, _LABELS)
    assert _ids(_WORDS[:3], _LABELS[:3]) + _ids(_WORDS[3:], _LABELS[3:]) == whole
    assert _ids(_WORDS[::-1], _LABELS[::-1]) == whole[::-1]
    assert len(set(whole)) == 8
    assert all(0 <= number < 2**63 for number in whole)


def test_any_other_fingerprint_or_order_of_them_is_another_number() -> None:
    """Of one tensor, or the same ones at other positions."""
    whole = set(_ids(_WORDS, _LABELS))
    assert not whole & set(_ids(_WORDS, _LABELS + 1))
    assert not whole & set(_ids(_LABELS, _WORDS))
    assert not whole & set(_ids(_WORDS))


def test_what_has_no_row_for_each_example_is_left_out() -> None:
    """Tensors of another length than the first."""
    columns, (found,) = examples_of([[_WORDS, _LABELS[:5], _LABELS]])
    assert columns == (0, 2)
    assert found.tolist() == _ids(_WORDS, _LABELS)


def test_replicas_have_those_of_their_own_rows() -> None:
    """However many each of them has, one may have none."""
    replicas = [[_WORDS[:3], _LABELS[:3]], [_WORDS[3:3], _LABELS[3:3]], [_WORDS[3:], _LABELS[3:]]]
    columns, found = examples_of(replicas)
    assert columns == (0, 1)
    assert [each.tolist() for each in found] == [_ids(*replica) for replica in replicas]
