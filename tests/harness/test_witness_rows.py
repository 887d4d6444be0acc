"""Fingerprints of examples: the same for the same bits wherever they stand, others for all others."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from harness.recording.witness._rows import fingerprints

_BATCH = np.random.default_rng(3).normal(size=(8, 5)).astype(np.float32)
_LABELS = np.arange(8) % 3


def _ids(*arrays: Any) -> list[int]:
    found: list[int] = fingerprints([[np.asarray(array) for array in arrays]])[1][0].tolist()
    return found


def test_an_example_has_its_number_in_whatever_batch() -> None:
    """Splitting, reordering and repeating rows does so with their numbers."""
    whole = _ids(_BATCH, _LABELS)
    assert _ids(_BATCH[:3], _LABELS[:3]) + _ids(_BATCH[3:], _LABELS[3:]) == whole
    assert _ids(_BATCH[::-1], _LABELS[::-1]) == whole[::-1]
    assert len(set(whole)) == 8
    assert all(0 <= number < 2**63 for number in whole)


def test_it_is_the_same_in_each_process() -> None:
    """Also where Python hashes strings with another seed."""
    code = "import numpy as np; from harness.recording.witness._rows import fingerprints as f; "
    code += "print(f([[np.arange(6.0).reshape(2, 3), np.array([b'a', b'b'], object)]])[1][0].tolist())"
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert other.stdout.strip() == str(_ids(np.arange(6.0).reshape(2, 3), np.array([b"a", b"b"], object)))


@pytest.mark.parametrize(
    "changed",
    [
        (np.nextafter(_BATCH, np.float32(9)), _LABELS),
        (_BATCH, _LABELS + 1),
        (_BATCH[:, ::-1], _LABELS),
        (_LABELS, _BATCH),
        (np.pad(_BATCH, ((0, 0), (0, 1))), _LABELS),
    ],
)
def test_any_other_bit_is_another_number(changed: tuple[Any, Any]) -> None:
    """The last bit, a label, the order of features or of tensors, one feature more."""
    assert not set(_ids(*changed)) & set(_ids(_BATCH, _LABELS))


def test_what_has_no_row_for_each_example_is_left_out() -> None:
    """Scalars, and tensors of another length than the first that has rows."""
    columns, (found,) = fingerprints([[np.float32(0.5), _BATCH, np.zeros((5, 1)), _LABELS]])
    assert columns == (1, 3)
    assert found.tolist() == _ids(_BATCH, _LABELS)
    assert fingerprints([[np.float32(1)]])[0] == ()


def test_replicas_have_those_of_their_own_rows() -> None:
    """However many each of them has, one may have none."""
    replicas = [[_BATCH[:3], _LABELS[:3]], [_BATCH[3:3], _LABELS[3:3]], [_BATCH[3:], _LABELS[3:]]]
    columns, found = fingerprints(replicas)
    assert columns == (0, 1)
    assert [each.tolist() for each in found] == [_ids(*replica) for replica in replicas]


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_any_number_of_rows_of_any_length(rows: int) -> None:
    """No row at all, which a replica may get; rows without bytes; long ones, of which a part is looked at."""
    assert len(_ids(np.zeros((rows, 3)))) == len(_ids(np.zeros((rows, 0)))) == rows
    assert len(set(_ids(np.arange(rows * 12_000).reshape(rows, 12_000)))) == rows
    assert len(_ids(np.array([b"x"] * rows, object))) == rows
