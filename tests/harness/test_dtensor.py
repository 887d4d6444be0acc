"""Models on a mesh: the same program on a mesh of one device is the reference, and copies along an axis are equal."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.judging.known_issues import shown_by
from simulator import Cluster, Topology
from tests._present import present
from tools.trying.cases import FOLDER

_HERE = Path(__file__).with_name("_meshes.py")
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
        "by_hand": _by_hand(mesh),
        "plain": plain,
        "laid_out": is_laid_out(variable),
        "read": [np.array_equal(each, values) for each in first],
        "after": [np.array_equal(each, values + 1) for each in second],
        "set": [each.tolist() for each in unpacked(variable)],
    }


def _by_hand(mesh: Any) -> list[tuple[str, str, int, int]]:
    """What is seen of a program that unpacks and packs: kind, name, line within it, and how many parts."""
    from harness.evidence.bindings import read_bindings
    from harness.recording.watch import ByHand, WatchOrder
    from tests.harness import _meshes

    with tempfile.TemporaryDirectory() as folder:
        with (watch := ByHand(WatchOrder(1, folder), "local:0")).active():
            _meshes.doubles_parts(mesh, watch.after_step)
        found = read_bindings(Path(folder) / "local-0.watched")
    first = inspect.getsourcelines(_meshes.doubles_parts)[1]
    seen = [(each.kind, each.name, found.frames[each.lines[-1]].line - first, len(each.parts)) for each in found.bound]
    return [each for each in seen if each[0] != "argument" and each[2] > 0]


def test_shards_are_read_and_set_device_by_device() -> None:
    """The whole is known as often as there are copies of each shard, which DTensor would not tell apart."""
    with Cluster(Topology(devices="cpu:4")) as cluster:
        found = cluster.run(_shards)["local:0"].value
    assert found == {
        "by_hand": [
            ("name", "value", 2, 4),
            *[("name", "part", 4, 1), ("return", "", 13, 1), ("name", "doubled", 6, 1)] * 2,
        ],
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
    ("function", "rule", "line"),
    [("train_missing_reduce", "copies_packed", "dtensor.pack("), ("train_reduced_twice", "summed_over_batch", "times")],
)
@pytest.mark.full
def test_a_wrong_model_on_a_mesh_is_found(function: str, rule: str, line: str) -> None:
    """What `pack` believes is read device by device, and Python that makes something wrong of parts has its line."""
    verdict = verify(f"{_PROGRAMS}:{function}", "dtensor-2", prove=False, explain=True)
    assert verdict.outcome == "inconsistent"
    assert present(verdict.explanation).rule == rule
    assert line in present(verdict.culprit).source


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["dtensor-2", "dtensor-2x2"])
def test_what_a_step_draws_on_a_mesh_is_what_one_device_draws(strategy: str) -> None:
    """Although DTensor alone would draw other numbers for each mesh."""
    verdict = verify(f"{_PROGRAMS}:train_right_dropout", strategy, prove=False)
    assert verdict.consistent, str(verdict)


@pytest.mark.full
def test_what_is_drawn_where_nothing_tells_of_the_mesh_is_not_judged() -> None:
    """To lay it out would fail in a graph that is not run there."""
    verdict = verify(f"{_HERE}:drops", "dtensor-2", prove=False)
    assert verdict.outcome == "abstained"
    assert "DTensor chooses them" in str(verdict)


@pytest.mark.full
def test_seeds_of_each_client_s_own_are_found() -> None:
    """What they draw is not the same."""
    verdict = verify(f"{_PROGRAMS}:train_seed_of_each_client", "dtensor-2w", prove=False, explain=False)
    assert verdict.outcome == "inconsistent"


@pytest.mark.full
def test_what_tensorflow_reads_too_early_is_not_the_program_s() -> None:
    """The same program is right where TensorFlow does not combine all-reduces, so that TensorFlow is named."""
    verdict = verify(f"{_HERE}:lags", "dtensor-2", prove=False)
    assert verdict.outcome == "inconsistent"
    assert verdict.explanation is not None
    assert verdict.explanation.rule == "stale_reads"
    assert "DTENSOR_ENABLE_COMBINE_ALL_REDUCES_OPTIMIZATION=0" in verdict.explanation.cure
    assert [issue.id for issue in shown_by(verdict, "dtensor-2")] == ["tf-dtensor-stale-reads"]


@pytest.mark.full
def test_a_wrong_step_stays_the_program_s_own_without_combined_reductions() -> None:
    """It is wrong in either environment."""
    verdict = verify(f"{_PROGRAMS}:train_centered_locally", "dtensor-2", prove=False)
    assert verdict.outcome == "inconsistent"
    assert verdict.explanation is None or verdict.explanation.rule != "stale_reads"


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["dtensor-2w", "dtensor-2wx2"])
def test_clients_on_one_mesh_are_consistent(strategy: str) -> None:
    """Each process has its part of the batch, and all have the same variables; the reference is one device still."""
    verdict = verify(f"{_PROGRAMS}:train_right_own_part", strategy, prove=False)
    assert verdict.consistent, str(verdict)
    held = {law.law for law in verdict.with_status("held")}
    assert {"clients_agree", "replicas_agree", "tasks_connected", "variables_match_reference"} <= held


@pytest.mark.full
def test_shards_of_other_clients_are_recorded_whole() -> None:
    """A variable that is cut along the axis of clients, of which each has a half."""
    verdict = verify(f"{_PROGRAMS}:train_right_over_batch_axis", "dtensor-2w", prove=False)
    assert verdict.consistent, str(verdict)


@pytest.mark.full
def test_initial_values_of_each_client_s_own_are_found() -> None:
    """`copy_to_mesh` believes them."""
    verdict = verify(f"{_PROGRAMS}:train_own_initial_values", "dtensor-2w", prove=False)
    assert present(verdict.explanation).rule == "copies_packed"


@pytest.mark.full
@pytest.mark.parametrize(("before", "after"), [("dtensor-2x2", "dtensor-2"), ("dtensor-2", "dtensor-2x2")])
def test_a_checkpoint_is_restored_on_another_mesh(before: str, after: str) -> None:
    """Its values do not depend on the layout that they were saved by."""
    verdict = verify(f"{_HERE}:saves", before, interrupt_at=2, resume_strategy=after, prove=False)
    assert verdict.consistent, str(verdict)
    assert present(verdict.interrupted)["resumed_at"] == 2


@pytest.mark.full
def test_shards_that_are_put_together_wrongly_are_found_when_they_are_restored() -> None:
    """Along the wrong axis, which has another meaning on one device."""
    verdict = verify(f"{_HERE}:mixes_up", "dtensor-2x2", interrupt_at=1, prove=False)
    assert verdict.outcome == "inconsistent"


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["dtensor-2x2", "dtensor-2w"])
def test_examples_by_the_axis_of_the_batch_are_counted_once(strategy: str) -> None:
    """Each belongs to one client, also where all of them have it."""
    verdict = verify(f"{_HERE}:names_examples", strategy, prove=False)
    assert verdict.consistent, str(verdict)
    assert "examples_match_reference" in {law.law for law in verdict.with_status("held")}
