"""A training that is watched while it trains, and judged by others."""

from __future__ import annotations

import errno
import json
import math
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from _lockstep import _watching
from harness.evidence.deposit import JUDGED, DepositJob, ended, opened, pids, trainings, variables_of
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
from harness.live import Judge, StepFinding, StepJudged
from harness.live.scalars import Scalars, masked_crc
from harness.live.state import divergences
from harness.recording.steps import SampleWriter
from harness.recording.steps.protocol import StepBegin, StepEnd
from simulator import UsageError
from tests.harness._called import called, lockstep
from tests.harness._loop import LOOP

_LOOP = LOOP.replace("MirroredStrategy", "MultiWorkerMirroredStrategy").replace("int(sys.argv[1])", "3")
_DEVICES = """tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
"""
_TWO_DEVICES = _LOOP.replace("strategy = tf.distribute.MultiWorkerMirroredStrategy()\n", _DEVICES)


def _judged(*options: str, code: int) -> list[dict[str, Any]]:
    """What is said of each judged step of what is left."""
    said = lockstep("judge", "left", *options, "--json", code=code).stdout
    return list(map(json.loads, said.splitlines()))


def test_a_training_that_somebody_starts_is_judged(here: Path) -> None:
    """Nine steps of two replicas, of which three are left, as `python -m harness.watch` leaves them."""
    Path("train.py").write_text(_TWO_DEVICES)
    watch = (sys.executable, "-m", "harness.watch", "--every", "4", "--out", "left", "train.py")
    subprocess.run(watch, check=True, timeout=300)
    (training,) = trainings(Path("left"))
    assert (training.steps, training.is_over) == ([1, 4, 8], True)
    steps = _judged("--follow", code=0)  # it ends, since the training has
    assert {step["step"]: step["outcome"] for step in steps} == dict.fromkeys(training.steps, "consistent")
    assert lockstep("judge", "left").stdout.startswith("3 steps: 3 consistent, 0 inconsistent, 0 not judged")


@pytest.mark.full
def test_a_bit_that_turns_over_is_found_and_nothing_else_is(here: Path) -> None:
    """Nine steps of two workers, of which steps 1, 3, 6 and 9 are left; in step 6 one gradient of one is another."""
    Path("train.py").write_text(_LOOP)
    fault = "kind=bitflip,task=worker:1,step=6,target=gradient,bit=24"
    told = ("--worker", "2", "--every", "3", "--out", "left", "--quiet", "--fault", fault)
    lockstep("watch", *told, "--", "python", "train.py")
    assert [training.steps for training in trainings(Path("left"))] == [[1, 3, 6, 9]]

    steps = _judged(code=1)
    outcomes = {step["step"]: step["outcome"] for step in steps}
    assert outcomes == {1: "consistent", 3: "consistent", 6: "inconsistent", 9: "consistent"}
    (wrong,) = (step for step in steps if step["step"] == 6)
    computed, contributed = wrong["findings"]
    assert (computed["question"], computed["variable"]) == ("computation", "w")
    assert contributed["replica"] == "worker:1"
    assert wrong["again"] == "transient"


@pytest.mark.full
def test_a_device_that_computes_otherwise_does_so_again(here: Path) -> None:
    """The second one multiplies one number by another factor, at each step."""
    wrong = 'scale = [1.0, 1.01, 1.0] if "CPU:1" in (x + 0.0).device else [1.0] * 3'
    script = _TWO_DEVICES.replace("    with tf.G", f"    {wrong}\n    with tf.G").replace("x, w)", "x, w * scale)")
    Path("train.py").write_text(script)
    watch = (sys.executable, "-m", "harness.watch", "--every", "8", "--out", "left", "train.py")
    subprocess.run(watch, check=True, timeout=300)
    steps = _judged(code=1)
    assert [step["again"] for step in steps] == ["persistent"] * 2
    assert [step["findings"][-1]["replica"] for step in steps] == ["local:0 replica 1"] * 2


@pytest.mark.full
def test_a_mistake_of_the_program_is_made_again(here: Path) -> None:
    """It is no machine's fault: replicas that compute once more put their parts together as those of the run did."""
    mean = _TWO_DEVICES.replace("loss = tf.reduce_sum", "loss = tf.reduce_mean").replace(" / BATCH\n", "\n")
    Path("train.py").write_text(mean)
    watch = (sys.executable, "-m", "harness.watch", "--every", "8", "--out", "left", "train.py")
    subprocess.run(watch, check=True, timeout=300)
    steps = _judged(code=1)
    assert [(step["outcome"], step["again"]) for step in steps] == [("inconsistent", "persistent")] * 2


def test_that_nothing_is_left_is_said(tmp_path: Path) -> None:
    """No step is judged, and whoever asks learns why."""
    found = lockstep("judge", tmp_path, "--json", code=5)
    assert found.stdout == ""
    assert "no step has left evidence in" in found.stderr


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
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environ | told, check=True, timeout=300)
    (training,) = trainings(tmp_path / "left")
    assert (training.steps, training.is_over) == ([1, 4, 8, 12, 16], True)
    assert training.job.script == str(tmp_path / "train.py")


_FIT = """
import tensorflow as tf
import {keras} as keras
from harness.watch import callback

processor = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
x = tf.random.stateless_normal([64, 3], seed=[1, 2])
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    layers = [keras.layers.Dense(2), keras.layers.BatchNormalization(), keras.layers.Dropout(0.2)]
    model = keras.Sequential([keras.layers.Input((3,)), *layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(x, tf.reduce_sum(x, axis=1), batch_size=8, epochs=2, verbose=0, callbacks=[callback(model, 4, out="left")])
"""


@pytest.mark.full
@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_a_callback_watches_a_model_that_was_built_before(keras: str, here: Path) -> None:
    """Each of its variables has the name by which the judge knows it; statistics may differ between replicas."""
    Path("train.py").write_text(_FIT.format(keras=keras))
    subprocess.run([sys.executable, "train.py"], check=True, timeout=300)
    *given, summary = lockstep("judge", "left", "--html", "page.html").stdout.splitlines()
    assert summary.startswith("5 steps: 5 consistent, 0 inconsistent, 0 not judged")
    assert "given that each replica normalises by its own batch: train.py:13" in given
    assert "<polyline" in Path("page.html").read_text()


@pytest.mark.full
def test_a_bit_of_a_weight_is_found_by_digests(here: Path) -> None:
    """It turns over after step 4, of which no evidence is left; what the copies hold at step 6 tells the rest."""
    slow = _LOOP.replace("0.1 *", "0.001 *").replace("tf.zeros([3])", "2.0 + tf.zeros([3])")
    Path("train.py").write_text(slow)
    fault = "kind=bitflip,task=worker:1,step=4,target=variable,element=2,bit=26"
    told = ("--worker", "2", "--every", "3", "--out", "left", "--quiet", "--fault", fault)
    lockstep("watch", *told, "--", "python", "train.py")
    (each,) = divergences(*trainings(Path("left")))
    assert each.is_before(5)
    assert not each.is_before(4)
    steps = _judged(code=1)
    outcomes = {step["step"]: step["outcome"] for step in steps if not step.get("by_digest")}
    assert outcomes == {1: "consistent", 3: "consistent", 6: "inconsistent", 9: "inconsistent"}
    (digested,) = (step for step in steps if step.get("by_digest"))
    assert digested["step"] == each.step
    (finding,) = digested["findings"]
    assert (finding["question"], finding["variable"], finding["index"]) == ("state", "w", [2])
    assert finding["replica"] == "worker:1"


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


def test_a_bit_of_a_file_is_noticed(tmp_path: Path, writer: StepFileWriter) -> None:
    """Wherever it is."""
    _leave(writer, 5, size=3)
    data = (tmp_path / "5.step").read_bytes()
    EvidenceReader(tmp_path).check(5)
    for place in range(0, len(data), 7):
        (tmp_path / "5.step").write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(ValueError, match="step 5 is not as it was written"):
            EvidenceReader(tmp_path).check(5)


def test_the_oldest_steps_give_way(tmp_path: Path, writer: StepFileWriter) -> None:
    """As many as it takes; the newest stays."""
    for index in (5, 10, 100):
        _leave(writer, index)
    assert list(loose_steps(tmp_path)) == [5, 10, 100]
    writer.room = 2 * (tmp_path / "5.step").stat().st_size + 8
    _leave(writer, 200)
    assert list(loose_steps(tmp_path)) == [100, 200]


def test_the_first_step_gives_way_last(tmp_path: Path, writer: StepFileWriter) -> None:
    """A restart is held against what it began with."""
    for index in (1, 5, 10):
        _leave(writer, index)
    writer.room = 2 * (tmp_path / "5.step").stat().st_size + 8
    _leave(writer, 100)
    assert list(loose_steps(tmp_path)) == [1, 100]
    writer.room -= 16
    _leave(writer, 200)
    assert list(loose_steps(tmp_path)) == [200]


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

    def full(path: Path, *_: Any, **__: Any) -> int:
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
    leaving = SampleWriter(every, writer, said.append, lambda tensors, take: take([*tensors]), lambda digests: None)
    leaving.into(tmp_path, 1 << 20, range(1))
    return leaving, writer


def _step(leaving: SampleWriter, number: int, *, done: bool = True, trained: bool = True) -> None:
    leaving.begin(StepBegin())
    leaving.end(tuple, StepEnd(done, trained))
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

    def slowly(*args: Any, **options: Any) -> int:
        assert may_go_on.wait(60)
        return written(*args, **options)

    monkeypatch.setattr(step_files, "written", slowly)
    leaving = _leaving(tmp_path, said)[0]
    for number in range(1, 5):
        _step(leaving, number)
    may_go_on.set()
    leaving.close()
    assert list(loose_steps(tmp_path)) == [1]
    assert said == ["steps are left out while the one before is still being written"]


def test_what_passes_before_a_tape_is_asked_is_of_the_step_that_begins_then(tmp_path: Path, said: list[str]) -> None:
    """An eager program may be evaluating until it asks one. What was an evaluation takes no room."""
    leaving = _leaving(tmp_path, said, every=1)[0]
    _step(leaving, 1)
    for number, ran in ((10_000, True), (4, False)):
        leaving.begin_evaluation()
        leaving.given(0, {0: [[np.arange(number)]]})
        if ran:
            leaving.end_evaluation(ran=True)
    leaving.begin(StepBegin())
    leaving.end_evaluation(ran=False)
    leaving.end(tuple, StepEnd(done=True, trained=True))
    leaving.saw(Seen(2, 0.0))
    leaving.close()
    reader = EvidenceReader(tmp_path)
    step = reader.step(2)
    assert step is not None
    assert [reader.arrays(passed)[0].tolist() for passed in step.passed] == [[0, 1, 2, 3]]
    assert max(path.stat().st_size for path in loose_steps(tmp_path).values()) < 2000
    assert not said


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
    environ |= {"TF_VAR_password": "x", "TF_TOKEN_registry": "x", "TF_HTTP_PASSWORD": "x"}
    assert variables_of(environ) == {"TF_USE_LEGACY_KERAS": "1", "KERAS_BACKEND": "tensorflow"}


def test_a_script_that_is_not_here_is_said(tmp_path: Path, writer: StepFileWriter) -> None:
    """With what to do."""
    writer.folder = opened(tmp_path, _job())
    _leave(writer, 1)
    with pytest.raises(UsageError, match=r"ran /nowhere/train\.py, which is not here.*lockstep judge DIR -- python"):
        list(Judge(tmp_path).judge())


@pytest.mark.parametrize("command", [(), ("python", "train.py")])
def test_a_script_that_has_changed_since_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: StepFileWriter, command: tuple[str, ...]
) -> None:
    """What another program computes says nothing of the job, and nothing of it stays."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("loss = 1\n")
    writer.folder = opened(tmp_path / "left", _job(script=str(script)))
    _leave(writer, 1)
    with pytest.raises(UsageError, match=r"train\.py is not the file that the job ran.*lockstep judge DIR -- python"):
        list(Judge(tmp_path / "left", command).judge())
    assert not (tmp_path / "left" / JUDGED).exists()


def test_who_waits_for_a_job_that_is_gone_waits_no_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process was killed, so that it never says that it has come to its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        began = psutil.Process(process.pid).create_time()
        told = {"host": gethostname(), "pid": process.pid, "began": began, "pids": pids()}
        opened(tmp_path, msgspec.structs.replace(_job(), **told))
        (training,) = trainings(tmp_path)
        there = training.gone
        process.kill()
    assert (there, training.gone) == (None, f"process {process.pid}, local:0")
    monkeypatch.setattr("harness.cli.judge._GONE_SECONDS", 0.0)
    found = called("judge", tmp_path, "--follow")
    assert f"process {process.pid}, local:0, has ended before its end: this waits 0 s" in found.output
    for other in ({"pids": "another container"}, {"host": "elsewhere"}, {"pid": 0}):
        assert not msgspec.structs.replace(training.job, **other).is_gone
    assert msgspec.structs.replace(training.job, pid=os.getpid()).is_gone  # somebody else has the number now


def test_a_damaged_step_is_not_judged(tmp_path: Path, writer: StepFileWriter) -> None:
    """It is no finding, and no script is run for it."""
    writer.folder = opened(tmp_path, _job())
    _leave(writer, 1, size=3)
    path = writer.folder / "1.step"
    path.write_bytes(path.read_bytes()[:-9] + bytes(9))
    (step,) = Judge(tmp_path).judge()
    assert (step.outcome, step.findings) == ("abstained", ())
    assert (step.why, step.failed) == (
        "the file of step 1 is not as it was written: its checksum is another one",
        "files",
    )


def test_nothing_judged_is_no_success(tmp_path: Path) -> None:
    """Exit code 5."""
    lockstep("judge", tmp_path, code=5)


def test_half_a_line_of_a_judge_that_was_killed_is_none(tmp_path: Path) -> None:
    """The step is judged again, and what is judged then stands in a line of its own."""
    whole = msgspec.json.encode(StepJudged(0, 3, "consistent", 0.5))
    (tmp_path / JUDGED).write_bytes(whole + b"\n" + whole[:20])
    judge = Judge(tmp_path)
    assert [each.step for each in judge.judged] == [3]
    judge._file.add(StepJudged(0, 6, "consistent", 0.5))
    judge._file.add(StepJudged(0, 9, "consistent", 0.5))
    assert [each.step for each in judge.judged] == [3, 6, 9]


def test_scalars_are_those_of_tensorboard(tmp_path: Path) -> None:
    """The checksum is the standard's, and each record has a step, a name and a number."""
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    scalars = Scalars(tmp_path, [StepJudged(0, 1, "consistent", 0.25)])
    scalars.add(StepJudged(0, 300, "inconsistent", math.inf))
    scalars.add(StepJudged(1, 1, "abstained"))
    (first,), (second,) = (list(folder.glob("events*")) for folder in (tmp_path, tmp_path / "start-2"))
    records = list(_records(first.read_bytes()))
    assert b"brain.Event:2" in records[0]
    number = b"\x15" + struct.pack("<f", math.inf)
    assert b"lockstep/worst_ratio\x15" + struct.pack("<f", 0.25) in records[1]  # of an earlier judge without scalars
    assert b"\x10" + bytes([300 & 0x7F | 0x80, 300 >> 7]) in records[2]
    assert b"lockstep/worst_ratio" + number in records[2]
    assert b"lockstep/steps_judged\x15" + struct.pack("<f", 2.0) in records[2]
    assert b"worst_ratio" not in second.read_bytes()


def _records(data: bytes) -> Iterator[bytes]:
    while data:
        (size,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12]) == (masked_crc(data[:8]),)
        yield data[12 : 12 + size]
        data = data[16 + size :]


def test_the_page_of_a_judge_names_what_is_wrong(tmp_path: Path) -> None:
    """In the row of its step, without a judge that has to run for it."""
    finding = StepFinding("computation", "law", "the text", "w", index=(3,), observed=2.0, expected=1.0, replica="one")
    lines = [StepJudged(0, 3, "consistent", 0.5), StepJudged(0, 6, "inconsistent", 70.0, (finding,))]
    (tmp_path / JUDGED).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    lockstep("judge", tmp_path, "--html", str(tmp_path / "page.html"), code=1)
    page = (tmp_path / "page.html").read_text()
    assert "computation: w[3] is 2, and not 1, on one [law]" in page
    assert page.count("<polyline") == 2
