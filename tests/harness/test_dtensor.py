"""Models on a mesh: the same program on a mesh of one device is the reference, and copies along an axis are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import verify
from simulator import Cluster, Topology
from tools.trying.cases import FOLDER

_PROGRAMS = FOLDER / "programs" / "dtensor.py"


def _shards() -> dict[str, object]:
    """What is read of a variable, cut along one axis of a mesh, that is set to other values, one for each copy."""
    import numpy as np
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    from harness.recording.layouts import copies_of, is_laid_out, set_shards, unpacked

    plain = is_laid_out(tf.constant(1.0))
    mesh = dtensor.create_mesh([("batch", 2), ("model", 2)], devices=[f"CPU:{k}" for k in range(4)])
    layout = dtensor.Layout([dtensor.UNSHARDED, "model"], mesh)
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    variable = dtensor.DVariable(dtensor.relayout(tf.constant(values), layout))
    first = copies_of(variable)
    variable.assign_add(tf.ones_like(variable))  # is asynchronous
    second = copies_of(variable)
    set_shards(variable, [values, 2 * values])
    return {
        "plain": plain,
        "laid_out": is_laid_out(variable),
        "read": [np.array_equal(each, values) for each in first],
        "after": [np.array_equal(each, values + 1) for each in second],
        "set": [each.tolist() for each in unpacked(variable)],
    }


def test_shards_are_read_and_set_device_by_device() -> None:
    """The whole is known as often as there are copies of each shard, which DTensor would not tell apart."""
    with Cluster(Topology(devices="cpu:4")) as cluster:
        found = cluster.run(_shards)["local:0"].value
    assert found == {
        "plain": False,
        "laid_out": True,
        "read": [True, True],
        "after": [True, True],
        "set": [[[0, 1], [4, 5]], [[2, 3], [6, 7]], [[0, 2], [8, 10]], [[4, 6], [12, 14]]],
    }


def test_a_right_model_on_a_mesh_is_consistent() -> None:
    """A column-parallel layer and a row-parallel one, by the step and by all variables."""
    verdict = verify(f"{_PROGRAMS}:train_right", "dtensor-2x2", prove=False)
    assert verdict.consistent, str(verdict)
    held = {law.law for law in verdict.with_status("held")}
    assert {"loss_matches_reference", "gradients_match_reference", "variables_match_reference"} <= held
    assert {"replicas_agree", "begins_alike"} <= held


@pytest.mark.parametrize(
    ("function", "rule"), [("train_missing_reduce", "copies_packed"), ("train_reduced_twice", "summed_over_batch")]
)
@pytest.mark.full
def test_a_wrong_model_on_a_mesh_is_found(function: str, rule: str) -> None:
    """What `pack` believes is read device by device."""
    verdict = verify(f"{_PROGRAMS}:{function}", "dtensor-2", prove=False)
    assert verdict.outcome == "inconsistent"
    assert verdict.explanation is not None
    assert verdict.explanation.rule == rule


@pytest.mark.full
def test_what_a_step_draws_on_a_mesh_is_not_judged() -> None:
    """Its numbers depend on the mesh, and nobody can say which ones they should be."""
    verdict = verify(str(Path(__file__).with_name("_meshes.py")) + ":drops", "dtensor-2", prove=False)
    assert verdict.outcome == "abstained"
    assert "draws random numbers in a function under DTensor" in str(verdict)
