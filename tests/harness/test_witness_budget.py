"""Gradients that are too large to be kept whole: a part of them says by what factor they are others."""

from __future__ import annotations

from typing import Any

import pytest

from harness.judging.reduction import multiple
from simulator import Cluster, Topology


def _kept() -> dict[str, Any]:
    """In a task: what is kept of a large gradient and a small one, once and times three, and of small ones."""
    import tensorflow as tf

    from harness.recording.witness._values import within_budget

    large, small = tf.range(3_000_000, dtype=tf.float32), tf.constant([1.0, 2.0])
    parts = [within_budget([factor * large, factor * small]) or [] for factor in (1.0, 3.0)]
    return {
        "parts": [[part.numpy().astype("f8") for part in each] for each in parts],
        "bytes": sum(part.shape.num_elements() * part.dtype.size for part in parts[0]),
        "whole": [part.shape.as_list() for part in within_budget([small, tf.zeros([4, 5])]) or []],
    }


@pytest.mark.full  # gradients of megabytes
def test_a_part_of_large_gradients_is_kept_and_tells_their_factor() -> None:
    """It is the same part each time and within the budget; small ones stay whole."""
    with Cluster(Topology(), timeout=60) as cluster:
        found = cluster.run(_kept)["local:0"].value
    one, three = found["parts"]
    assert found["bytes"] <= 8 << 20
    assert one[1].tolist() == [1.0, 2.0]
    assert multiple(three, one) == pytest.approx(3.0)
    one[0][5] += 1e9  # the control: what is no multiple
    assert multiple(three, one) is None
    assert found["whole"] == [[2], [4, 5]]
