"""Whose fault it is that copies differ, or that a start begins with another state, without a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.deposit import DepositJob, Training, opened, trainings
from harness.evidence.digests import Digest, DigestWriter
from harness.evidence.saved_states import SavedState, called, leave, sum_of
from harness.evidence.steps import HeldVariable, StepEvidence, StepFileWriter
from harness.evidence.trace import Array, Header, Seen, SeenVariable, Value
from harness.live.contributions import outlier
from harness.live.restarts import resumed_apart, unclear
from harness.live.state import Divergence, begun_apart, begun_with_nan, divergences, left_apart


def _job() -> DepositJob:
    return DepositJob(Header("local:0", 0, "mirrored-2", 2, 2, 1, 0), "", (), "/", "", {})


def _digested(folder: Path, *rows: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    writer = DigestWriter(folder)
    for step, (begin, end) in enumerate(rows, 1):
        writer.write(Digest(step, 1, begin, end))
    writer.flush()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([((1, 1), (2, 2)), ((2, 2), (3, 3))], []),
        ([((1, 1), (2, 2)), ((5, 5), (3, 3))], []),  # set by the program, on both
        ([((1, 1), (2, 2)), ((2, 5), (3, 6)), ((3, 6), (4, 7))], [Divergence(2, True, ("local:0 replica 1",))]),
        ([((1, 1), (2, 2)), ((2, 2), (3, 6)), ((3, 6), (4, 7))], [Divergence(2, False, ())]),
        ([((1, 2), (2, 3)), ((2, 3), (3, 4))], [Divergence(1, True, ())]),  # never broadcast
        ([((1, 1), ()), ((2, 2), ()), ((3, 4), ()), ((4, 5), ())], [Divergence(2, False, ())]),
    ],
)
def test_digests_tell_where_copies_came_to_differ(
    tmp_path: Path, rows: list[tuple[tuple[int, ...], tuple[int, ...]]], told: list[Divergence]
) -> None:
    """Once; in memory between two steps it is known whose fault it was."""
    _digested(opened(tmp_path, _job()), *rows)
    assert list(divergences(*trainings(tmp_path))) == told


def test_of_three_the_odd_one_is_wrong(tmp_path: Path) -> None:
    """Also where they came to differ in a step."""
    for task, end in (("worker:0", 3), ("worker:1", 4), ("worker:2", 3)):
        header = Header(task, 0, "multi_worker-3", 3, 1, 3, 0)
        _digested(opened(tmp_path, DepositJob(header, "", (), "/", "", {})), ((1,), (end,)))
    assert list(divergences(*trainings(tmp_path))) == [Divergence(1, False, ("worker:1",))]


@pytest.mark.parametrize(
    ("off", "told"), [(0.0, (None, "w")), (1e-7, (None, "v")), (0.3, ("b", "v")), (math.nan, ("b", "v"))]
)
def test_the_replica_that_contributes_what_it_should_not(off: float, told: tuple[str | None, str]) -> None:
    """A factor that all elements have is the script's own division, and rounding is no fault."""
    should = {"w": np.arange(1.0, 7.0).reshape(2, 3), "v": np.arange(1.0, 5.0)}
    found = {"a": {name: each / 2 for name, each in should.items()}}
    found["b"] = {"w": should["w"] / 2, "v": should["v"] / 2 + np.array([0.0, 0.0, off, 0.0])}
    assert outlier(found, lambda replica: should) == told


def _seen(copies: list[list[float]]) -> Seen:
    return Seen(1, 0.0, variables=(SeenVariable("w", "mirrored", tuple(Array.of(np.array(v)) for v in copies)),))


@pytest.mark.parametrize(
    ("copies", "told"),
    [
        ([[1.0, 2.0], [1.0, 2.5]], "local:0 replica 1"),
        ([[1.0, math.nan], [1.0, 2.0]], "local:0 replica 0"),
        ([[1.0, 2.0 + 1e-5], [1.0, 2.0 - 1e-5]], None),  # rounding does as much
        ([[1.0, 2.0]], None),
    ],
)
def test_the_copy_that_is_far_from_what_one_device_computes(copies: list[list[float]], told: str | None) -> None:
    """Also where only one step was left."""
    assert left_apart([(_job(), _seen(copies))], _seen([[1.0, 2.0 + 1e-6]])) == told


@pytest.mark.parametrize(
    ("copies", "again", "told"),
    [
        ([[1.0, 2.0 + 1e-7], [1.0, 2.0]], [[1.0, 2.0]], "local:0 replica 0"),
        ([[1.0, 2.0 + 1e-7], [1.0, 2.0]], [[1.0, 2.0], [1.0, 2.0]], "local:0 replica 0"),
        ([[1.0, 2.0 + 1e-7], [1.0, 2.0]], [[1.0, 2.0 + 1e-7], [1.0, 2.0 + 2e-7]], "local:0 replica 1"),
        ([[1.0, 2.0 + 1e-7], [1.0, 2.0]], [[1.0, 2.0 - 1e-7]], None),  # this machine rounds otherwise
        ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0 - 1e-7]], None),
    ],
)
def test_the_copy_that_is_not_computed_again_is_wrong(
    copies: list[list[float]], again: list[list[float]], told: str | None
) -> None:
    """A bit that rounding may change, too, is another one than as many replicas leave."""
    assert left_apart([(_job(), _seen(copies))], _seen([[1.0, 2.0 + 5e-8]]), _seen(again)) == told


def _start(
    deposit: Path, begun: Mapping[str, Any], *digests: tuple[int, ...], counters: tuple[str, ...] = ("done",)
) -> None:
    """One start of a training, of which step 1 and maybe step 3 are left."""
    writer = StepFileWriter(print)
    writer.folder, writer.room = opened(deposit, _job()), 1 << 20
    _digested(writer.folder, *((each, ()) for each in digests))
    for index in (1, 3):
        values = {name: np.array(value) + (index - 1) * (name in counters) for name, value in begun.items()}
        writer.begin(index)
        held = tuple(
            HeldVariable(name, 0, "copies", (writer.put(value),), is_local=name == "own")
            for name, value in values.items()
        )
        gradients = tuple(Value(name, (Array.of(np.array(begun[name])),)) for name in ("w",) if name in begun)
        seen = msgspec.msgpack.encode(Seen(index, 0.0, gradients=gradients))
        writer.publish(StepEvidence(index, held, seen=seen))
        writer.close()


@pytest.mark.parametrize(("iterations", "saves"), [(0, 1), (5, 1), (5, 0), (0, 0)])
def test_a_restart_that_has_lost_its_optimizer(tmp_path: Path, iterations: int, saves: int) -> None:
    """Another counter of its own says how far it has come, of a step whose state nobody has; a checkpoint has one, too.

    What begins as at first is said only where a counter of steps does, since a program may set a number to zero.
    """
    first = {"done": 0, "iterations": 0, "slot": 0.0, "kernel": 0.5}
    counters = ("done", "iterations", "slot", "kernel")
    _start(tmp_path, first, (10, 10), (20, 20), (30, 30), counters=counters)
    begun = {"done": 5, "iterations": iterations, "slot": 0.0, "kernel": 7.0}
    _start(tmp_path, begun | ({"save_counter": 1} if saves else {}), (60, 60), counters=counters)
    before, after = trainings(tmp_path)
    lost = [] if iterations else ["iterations", "slot"]
    assert [each.variable for each in resumed_apart([before], after)] == lost


def test_a_step_that_begins_with_nan_is_known(tmp_path: Path) -> None:
    """Infinity may be the best loss until then, but no weight."""
    _start(tmp_path, {"best": math.inf, "w": math.nan})
    _start(tmp_path, {"best": math.inf, "w": 1.0})
    broken, whole = trainings(tmp_path)
    assert begun_with_nan(broken, 1, ["w"]) == "w holds nan when the step begins"
    assert begun_with_nan(whole, 1, ["w"]) is None
    assert begun_with_nan(whole, 1, ["best"]) == "best holds infinity when the step begins"


@pytest.mark.parametrize("wrong", [0, 1])
@pytest.mark.parametrize("far", [-0.5, math.nan, math.inf])
def test_copies_are_held_against_what_both_had(tmp_path: Path, wrong: int, far: float) -> None:
    """Not against a step that began with different copies, of which the first may be the wrong one."""
    writer = StepFileWriter(print)
    writer.folder, writer.room = opened(tmp_path, _job()), 1 << 20
    for index, right, other in ((1, 0.5, 0.5), (3, 0.501, far), (6, 0.52, far)):
        writer.begin(index)
        copies = tuple(writer.put(np.array(each)) for each in ((right, other) if wrong else (other, right)))
        writer.publish(StepEvidence(index, (HeldVariable("w", 0, "own", copies),)))
        writer.close()
    (training,) = trainings(tmp_path)
    for step in (3, 6):
        (found,) = begun_apart(training, step, Divergence(2, False, ()))
        assert found.replica == f"local:0 replica {wrong}"


@pytest.mark.parametrize(
    ("done", "mean", "digest", "told"),
    [
        (2, 0.5, 30, []),
        (2, 0.0, 31, ["mean is started again with another state than it had after step 2"]),
        (2, 0.5, 31, ["the training is started again with another state than it had after step 2"]),
        (0, 0.0, 31, []),  # begun anew
        (9, 0.0, 31, []),  # from a step of which no digest is left, as of a process that was killed
    ],
)
def test_what_a_restart_has_lost(tmp_path: Path, done: int, mean: float, digest: int, told: list[str]) -> None:
    """It begins with what it had after as many steps as its counter says, and else that is said.

    Not what each replica has of its own: a checkpoint has what all have together.
    """
    _start(tmp_path, {"done": 0, "mean": 0.5, "own": 3.0}, (10, 10), (20, 20), (30, 30))
    _start(tmp_path, {"done": done, "mean": mean, "own": 1.5}, (digest, digest))
    first, second = trainings(tmp_path)
    assert [each.text for each in resumed_apart([first], second)] == told


@pytest.mark.parametrize(
    ("begun", "lost"),
    [
        ({}, []),
        ({"done": 2, "rate": 0.2, "w": [2.0, 2.0], "mean": [0.0, 0.0]}, []),  # an earlier one
        ({"mean": [0.0, 0.0]}, ["mean"]),
        ({"rate": 0.05}, []),  # which a program may set before it goes on
        ({"done": 3}, []),  # nobody knows what it had then
        ({"more": 9, "mean": [0.0, 0.0]}, ["mean"]),  # of two counters
        ({"more": 9}, []),
        ({"more": 9, "w": [7.0, 7.0], "mean": [7.0, 7.0]}, []),  # from elsewhere
        ({"done": 0, "mean": [0.0, 0.0]}, []),  # begun anew
        ({"w": None, "mean": None, "model/w": [4.0, 4.0], "model/mean": [4.0, 4.0]}, []),  # loaded
        ({"w": None, "mean": None, "model/w": [4.1, 4.1], "model/mean": [4.0, 4.0]}, ["w"]),
        ({"w": None, "mean": None, "model/w": [4.1, 4.1], "model/mean": [4.2, 4.0]}, ["w", "mean"]),
        ({"w": None, "mean": None, "other": [4.1, 4.1], "mine": [4.2, 4.0]}, []),  # nobody knows which is which
    ],
)
def test_a_restart_begins_with_what_a_checkpoint_had(tmp_path: Path, begun: dict[str, Any], lost: list[str]) -> None:
    """No digest tells what came after step 4, since the job ended there."""
    first = {"done": 0, "more": 0, "rate": 0.2, "w": [1.0, 1.0], "mean": [0.0, 0.0]}
    after = {
        2: first | {"done": 2, "w": [2.0, 2.0]},
        4: first | {"done": 4, "rate": 0.1, "w": [4.0, 4.0], "mean": [4.0, 4.0]},
    }
    _start(tmp_path, first, (1, 1))
    _start(tmp_path, {name: value for name, value in (after[4] | begun).items() if value is not None}, (9, 9))
    before, again = trainings(tmp_path)
    for step, held in after.items():
        sums = {called(name, 0): sum_of(np.array(value)) for name, value in held.items()}
        leave(next(iter(before.folders)), SavedState(step, sums))
    assert [each.variable for each in resumed_apart([before], again)] == lost


@pytest.mark.parametrize(("mean", "lost"), [([4.0, 4.0], []), ([0.0, 0.0], ["mean"])])
def test_what_a_checkpoint_had_need_not_be_what_the_next_step_began_with(
    tmp_path: Path, mean: list[float], lost: list[str]
) -> None:
    """A program may change something in between; a restart that does not begin with either is wrong."""
    first = {"done": 0, "mean": [0.0, 0.0]}
    _start(tmp_path, first, (1, 1), (2, 2), (3, 3), (4, 4), (5, 5))
    _start(tmp_path, {"done": 4, "mean": mean}, (9, 9))
    before, again = trainings(tmp_path)
    sums = {called(name, 0): sum_of(np.array(value)) for name, value in (("done", 4), ("mean", [4.0, 4.0]))}
    leave(next(iter(before.folders)), SavedState(4, sums))
    assert [each.variable for each in resumed_apart([before], again)] == lost


def _saved(training: Training, *states: tuple[int, dict[str, Any], bool]) -> None:
    for step, held, goes_on in states:
        sums = {called(name, 0): sum_of(np.array(value)) for name, value in held.items()}
        leave(next(iter(training.folders)), SavedState(step, sums, goes_on))


@pytest.mark.parametrize(
    ("saved", "went_on", "variable", "told"),
    [
        ({"w": [2.0]}, {"w": [4.0]}, "w", ["w is started again with another state than it had after step 4"]),
        ({"w": [4.0]}, {"w": [4.5]}, "w", ["w is started again with what a checkpoint had after step 4"]),
        (
            {"w": [4.0], "rate": 0.1},
            {"rate": 0.05},
            "rate",
            ["start 2 begins with rate as a checkpoint had it after step 4"],
        ),
        ({"w": [4.0]}, {}, "w", []),
    ],
)
def test_what_the_first_start_changed_after_a_checkpoint(
    tmp_path: Path, saved: dict[str, Any], went_on: dict[str, Any], variable: str, told: list[str]
) -> None:
    """A training that is never interrupted goes on with that: of a rate it is said, and of a weight it is wrong."""
    first = {"done": 0, "rate": 0.2, "w": [1.0]}
    state = first | {"done": 4, "rate": 0.1} | saved
    _start(tmp_path, first, (1, 1), (2, 2))
    _start(tmp_path, first | {"done": 4, "rate": 0.1, "w": [4.0]}, (9, 9))
    before, again = trainings(tmp_path)
    _saved(before, (4, state, False), (4, state | went_on, True))
    found = [*(each.text for each in resumed_apart([before], again)), *unclear([before], again)]
    assert [text.partition(", and")[0] for text in found if variable in text] == told


def test_after_the_last_checkpoint_it_would_have_changed_what_it_did_after_others(tmp_path: Path) -> None:
    """It ended there. What only some of them were followed by is not known of this one."""
    first = {"done": 0, "w": [1.0], "v": [1.0]}
    _start(tmp_path, first, (1, 1))
    _start(tmp_path, {"done": 6, "w": [6.0], "v": [6.0]}, (9, 9))
    before, again = trainings(tmp_path)
    for step in (2, 4, 6):
        _saved(before, (step, {"done": step, "w": [float(step)], "v": [float(step)]}, False))
        if step < 6:
            _saved(before, (step, {"done": step, "w": [step + 0.5], "v": [step + 0.5 * (step == 2)]}, True))
    assert [each.variable for each in resumed_apart([before], again)] == ["w"]
    assert unclear([before], again) == []


@pytest.mark.parametrize(
    ("begun", "says"),
    [
        ({"rate": 0.2}, True),
        ({"rate": 0.1}, False),
        ({"rate": 0.05}, False),  # which it sets before it goes on
        ({"rate": 0.2, "w": 7.0}, False),  # from elsewhere
        ({"count": 0.0}, False),  # as of each epoch
    ],
)
def test_a_number_that_is_as_at_first_may_be_lost(tmp_path: Path, begun: dict[str, Any], says: bool) -> None:
    """Such as a rate that no checkpoint has."""
    first = {"done": 0, "rate": 0.2, "count": 0.0, "w": [1.0, 1.0]}
    state = {"done": 4, "rate": 0.1, "count": 3.0, "w": [4.0, 4.0]}
    _start(tmp_path, first, (1, 1))
    _start(tmp_path, state | begun, (9, 9))
    before, again = trainings(tmp_path)
    _saved(before, (4, state, False))
    told = "start 2 begins with rate = 0.2 as start 1 did, and a checkpoint had something else after step 4"
    assert [text.partition(":")[0] for text in unclear([before], again)] == [told] * says
