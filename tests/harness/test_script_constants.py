"""A script that is written for so many replicas: what it divides by may be their number."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.subject.script import Script
from harness.subject.script_constants import divisions_by
from tests.harness._loop import LOOP, Verified

_LOSS = "tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / BATCH"
_MEAN = "tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)"


def test_only_a_name_for_the_number_is_one(tmp_path: Path) -> None:
    """In functions; half of a square is no part of a sum over replicas."""
    source = "N = 2\nM = 3\nT = True\nhalf = 1 / N\n"
    source += "def step(x):\n    y = x / N\n    y /= N\n    return y / 2 / M / T // N\n"
    (tmp_path / "train.py").write_text(source)
    script = Script.of(["python", str(tmp_path / "train.py")])
    assert divisions_by(script, 2) == ["train.py:6", "train.py:7"]
    assert divisions_by(script, 3) == ["train.py:8"]
    assert divisions_by(script, 4) == []


@pytest.mark.full
@pytest.mark.parametrize(
    ("loss", "outcome"),
    [(f"{_MEAN} / DEVICES", "abstained"), (_MEAN, "inconsistent"), (f"{_MEAN} / 2", "inconsistent")],
)
def test_a_mean_that_is_divided_by_a_named_number_of_devices_is_not_accused(
    loss: str, outcome: str, verified: Verified
) -> None:
    """One device would divide by one: nobody knows. Without the name it is found as before."""
    loop = LOOP.replace("BATCH = 4 * strategy.num_replicas_in_sync", "DEVICES = 2\nBATCH = 4 * DEVICES")
    verdict = verified(loop.replace(_LOSS, loss), "mirrored-2", "1", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert ("train.py:15" in str(verdict.abstained)) is (outcome == "abstained")
