"""A training that is watched while it trains, and judged by others."""

from __future__ import annotations

import errno
import json
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner, Result

from _lockstep import _watching
from harness.cli import _lockstep
from harness.evidence.deposit import JUDGED, DepositJob, ended, opened, trainings, variables_of
from harness.evidence.digests import Digest, DigestWriter
from harness.evidence.steps import (
    EvidenceReader,
    EvidenceWriter,
    HeldVariable,
    StepEvidence,
    StepFileWriter,
    loose_steps,
    renumbered,
    step_files,
)
from harness.evidence.steps.store import written
from harness.evidence.trace import Header, Seen
from harness.live import Judge, StepJudged
from harness.live.judge import outlier
from harness.live.state import Divergence, divergences
from harness.recording.steps import SampleWriter
from simulator import UsageError

_LOOP = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
batch = 4 * strategy.num_replicas_in_sync
x = tf.random.stateless_normal([24, 3], seed=[1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).batch(batch)
with strategy.scope():
    w = tf.Variable(tf.zeros([3]), name="w")

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / batch
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", gradient))

@tf.function
def train(given):
    strategy.run(step, args=given)

for _ in range(3):
    for given in strategy.experimental_distribute_dataset(dataset):
        train(given)
"""


def _call(*words: str) -> Result:
    return CliRunner().invoke(_lockstep, words, standalone_mode=False, catch_exceptions=False)


def test_a_bit_that_turns_over_is_found_and_nothing_else_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine steps of two workers, of which steps 1, 3, 6 and 9 are left; in step 6 one gradient of one is another."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(_LOOP)
    fault = "kind=bitflip,task=worker:1,step=6,target=gradient,bit=24"
    told = ("--worker", "2", "--every", "3", "--out", "left", "--quiet", "--fault", fault)
    assert _call("watch", *told, "--", "python", "train.py").return_value == 0
    assert [training.steps for training in trainings(Path("left"))] == [[1, 3, 6, 9]]

    found = _call("judge", "left", "--follow", "--json")  # it ends, since the training has
    steps = [json.loads(line) for line in found.stdout.splitlines()]
    outcomes = {step["step"]: step["outcome"] for step in steps}
    assert outcomes == {1: "consistent", 3: "consistent", 6: "inconsistent", 9: "consistent"}
    (wrong,) = (step for step in steps if step["step"] == 6)
    computed, contributed = wrong["findings"]
    assert (computed["question"], computed["variable"]) == ("computation", "w")
    assert contributed["replica"] == "worker:1"
    assert found.return_value == 1

    again = _call("judge", "left")
    assert again.return_value == 1
    assert again.stdout.startswith("4 steps: 3 consistent, 1 inconsistent, 0 not judged")


# ---------------------------------------------------------------------- what is left


@pytest.mark.full
def test_two_variables_of_the_environment_are_enough(tmp_path: Path) -> None:
    """For a program that somebody else starts, and who has a `sitecustomize` of his own."""
    (tmp_path / "sitecustomize.py").write_text("import os\nos.environ['TF_CPP_MIN_LOG_LEVEL'] = '3'\n")
    script = _LOOP.replace("MultiWorkerMirrored", "Mirrored") + "import os\nassert os.environ['TF_CPP_MIN_LOG_LEVEL']\n"
    (tmp_path / "train.py").write_text(script)
    folder = Path(_watching.__file__).parent
    told = {"LOCKSTEP_WATCH": f"4:{tmp_path / 'left'}", "PYTHONPATH": f"{folder}:{tmp_path}"}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TF_CPP")}
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environ | told, check=True, timeout=120)
    (training,) = trainings(tmp_path / "left")
    assert (training.steps, training.is_over) == ([1, 4, 8, 12, 16], True)
    assert training.job.script == str(tmp_path / "train.py")


@pytest.mark.full
def test_a_bit_of_a_weight_is_found_by_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It turns over after step 4, of which no evidence is left; what the copies hold at step 6 tells the rest."""
    monkeypatch.chdir(tmp_path)
    slow = _LOOP.replace("0.1 *", "0.001 *").replace("tf.zeros([3])", "2.0 + tf.zeros([3])")
    Path("train.py").write_text(slow)
    fault = "kind=bitflip,task=worker:1,step=4,target=variable,element=2,bit=26"
    told = ("--worker", "2", "--every", "3", "--out", "left", "--quiet", "--fault", fault)
    assert _call("watch", *told, "--", "python", "train.py").return_value == 0
    (each,) = divergences(*trainings(Path("left")))
    assert each.is_before(5)
    assert not each.is_before(4)
    found = _call("judge", "left", "--json")
    steps = list(map(json.loads, found.stdout.splitlines()))
    outcomes = {step["step"]: step["outcome"] for step in steps if not step.get("by_digest")}
    assert outcomes == {1: "consistent", 3: "consistent", 6: "inconsistent", 9: "inconsistent"}
    (digested,) = (step for step in steps if step.get("by_digest"))
    assert digested["step"] == each.step
    (finding,) = digested["findings"]
    assert (finding["question"], finding["variable"], finding["index"]) == ("state", "w", [2])
    assert finding["replica"] == "worker:1"


# ---------------------------------------------------------------------- whose fault it is


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


@pytest.mark.parametrize(("off", "told"), [(0.0, None), (1e-7, None), (0.3, ("b", "v")), (math.nan, ("b", "v"))])
def test_the_replica_that_contributes_what_it_should_not(off: float, told: tuple[str, str] | None) -> None:
    """A factor that all elements have is the script's own division, and rounding is no fault."""
    should = {"w": np.arange(1.0, 7.0).reshape(2, 3), "v": np.arange(1.0, 5.0)}
    found = {"a": {name: each / 2 for name, each in should.items()}}
    found["b"] = {"w": should["w"] / 2, "v": should["v"] / 2 + np.array([0.0, 0.0, off, 0.0])}
    assert outlier(found, lambda replica: should) == told


@pytest.fixture
def said() -> list[str]:
    """What a writer has noted."""
    return []


@pytest.fixture
def writer(tmp_path: Path, said: list[str]) -> StepFileWriter:
    """One with much room."""
    found = StepFileWriter(said.append)
    found.folder, found.room = tmp_path, 1 << 20
    return found


def _leave(writer: StepFileWriter, index: int, size: int = 1000) -> None:
    writer.begin(index)
    held = HeldVariable("w", 0, "copies", (writer.put(np.full(size, index, np.float64)),))
    writer.publish(StepEvidence(index, (held,)))
    writer.close()


def test_each_step_is_whole_by_itself(tmp_path: Path, writer: StepFileWriter) -> None:
    """Also where an earlier one had the same arrays; it is the same step in another store, under another number."""
    for index in (7, 9):
        writer.begin(index)
        held = HeldVariable("w", 0, "copies", (writer.put(np.arange(3.0)),))
        writer.publish(StepEvidence(index, (held,)))
        writer.close()
    (tmp_path / "7.step").unlink()
    reader = EvidenceReader(tmp_path)
    step = reader.step(9)
    assert step is not None
    store = EvidenceWriter(tmp_path / "other")
    store.begin(1)
    store.publish(renumbered(reader, step, 1, store.put))
    other = EvidenceReader(tmp_path / "other")
    moved = other.step(1)
    assert moved is not None
    assert (moved.index, moved.original) == (1, 9)
    assert other.array(moved.before[0].copies[0]).tolist() == [0.0, 1.0, 2.0]


def test_the_oldest_steps_give_way(tmp_path: Path, writer: StepFileWriter) -> None:
    """As many as it takes; the newest stays."""
    for index in (5, 10, 100):
        _leave(writer, index)
    assert list(loose_steps(tmp_path)) == [5, 10, 100]
    writer.room = 2 * (tmp_path / "5.step").stat().st_size + 8
    _leave(writer, 200)
    assert list(loose_steps(tmp_path)) == [100, 200]


def test_room_for_no_step_is_said(tmp_path: Path, writer: StepFileWriter, said: list[str]) -> None:
    """The newest is left nevertheless."""
    writer.room = 10
    _leave(writer, 1)
    assert list(loose_steps(tmp_path)) == [1]
    assert "the room is less" in said[0]


def test_a_full_disk_costs_a_note(
    tmp_path: Path, writer: StepFileWriter, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the step is left, and the next one is."""

    def full(path: Path, *_: Any) -> int:
        path.with_suffix(".part").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(step_files, "written", full)
        _leave(writer, 1)
    assert said == [f"evidence could not be left in {tmp_path}: No space left on device"]
    assert not list(tmp_path.iterdir())
    _leave(writer, 2)
    assert list(loose_steps(tmp_path)) == [2]


def test_a_directory_that_is_gone_costs_a_note(tmp_path: Path, writer: StepFileWriter, said: list[str]) -> None:
    """As a full disk does."""
    writer.folder = tmp_path / "gone"
    _leave(writer, 1)
    assert "could not be left" in said[0]


def _leaving(tmp_path: Path, said: list[str], every: int = 3) -> tuple[SampleWriter, StepFileWriter]:
    writer = StepFileWriter(said.append)
    leaving = SampleWriter(every, writer, lambda tensors, take: None, said.append)
    leaving.into(tmp_path, 1 << 20, range(1))
    return leaving, writer


def _step(leaving: SampleWriter, number: int, *, done: bool = True, trained: bool = True) -> None:
    leaving.begin((), None, None)
    leaving.end(tuple, done=done, trained=trained)
    leaving.saw(Seen(number, 0.0))


def test_the_first_step_and_every_third_are_left(tmp_path: Path, said: list[str]) -> None:
    """A call that finds no more data, or takes no gradients, is none and does not count."""
    leaving, writer = _leaving(tmp_path, said)
    _step(leaving, 1, trained=False)
    for number in range(1, 8):
        _step(leaving, number)
        writer.close()  # so that none is left out
        _step(leaving, number + 1, done=False)
    leaving.close()
    assert list(loose_steps(tmp_path)) == [1, 3, 6]
    assert not said


def test_a_training_does_not_wait_for_the_disk(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a step is being written the next one is left out, with a note."""
    may_go_on = threading.Event()

    def slowly(*args: Any) -> int:
        assert may_go_on.wait(60)
        return written(*args)

    monkeypatch.setattr(step_files, "written", slowly)
    leaving = _leaving(tmp_path, said)[0]
    for number in range(1, 5):
        _step(leaving, number)
    may_go_on.set()
    leaving.close()
    assert list(loose_steps(tmp_path)) == [1]
    assert said == ["steps are left out while the one before is still being written"]


# ---------------------------------------------------------------------- the deposit and its judge


def _job(task: str = "local:0", clients: int = 1, script: str = "/nowhere/train.py") -> DepositJob:
    header = Header(task, 0, "mirrored-2", 2, 2, clients, 0)
    return DepositJob(header, script, (), "/", "0" * 64, {})


def test_a_task_that_is_started_again_has_another_folder(tmp_path: Path) -> None:
    """What belongs together has one number; a step counts when all tasks have left it."""
    for task in ("worker:0", "worker:1", "worker:0", "worker:1"):
        opened(tmp_path, _job(task, clients=2))
    for name in ("worker-0.0/5.step", "worker-1.0/5.step", "worker-0.1/7.step"):
        (tmp_path / name).touch()
    first, second = trainings(tmp_path)
    assert (first.number, first.steps) == (0, [5])
    assert (second.number, second.steps) == (1, [])
    assert not first.is_over
    for folder in first.folders:
        ended(folder)
    assert first.is_over


def test_what_is_noted_of_an_environment() -> None:
    """What changes numbers, and nothing that says who a process is or that is a secret."""
    environ = {"TF_USE_LEGACY_KERAS": "1", "TF_CONFIG": "{}", "KERAS_BACKEND": "tensorflow", "AWS_SECRET": "x"}
    assert variables_of(environ) == {"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "tensorflow"}


def test_a_script_that_is_not_here_is_said(tmp_path: Path, writer: StepFileWriter) -> None:
    """With what to do."""
    writer.folder = opened(tmp_path, _job())
    _leave(writer, 1)
    with pytest.raises(UsageError, match=r"ran /nowhere/train\.py, which is not here.*lockstep judge DIR -- python"):
        list(Judge(tmp_path).judge())


def test_nothing_judged_is_no_success(tmp_path: Path) -> None:
    """Exit code 5."""
    assert _call("judge", str(tmp_path)).return_value == 5


def test_half_a_line_of_a_judge_that_was_killed_is_none(tmp_path: Path) -> None:
    """The step is judged again, and what is judged then stands in a line of its own."""
    whole = msgspec.json.encode(StepJudged(0, 3, "consistent", 0.5))
    (tmp_path / JUDGED).write_bytes(whole + b"\n" + whole[:20])
    judge = Judge(tmp_path)
    assert [each.step for each in judge.judged] == [3]
    judge._note(StepJudged(0, 6, "consistent", 0.5))
    judge._note(StepJudged(0, 9, "consistent", 0.5))
    assert [each.step for each in judge.judged] == [3, 6, 9]
