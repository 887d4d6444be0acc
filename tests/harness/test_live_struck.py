"""A watched training, or its judge, that is killed, or whose directory is full, gone or slow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.evidence.deposit import JUDGED, trainings
from harness.evidence.digests import digests_of
from harness.evidence.steps import loose_steps
from harness.live import Judge

pytestmark = pytest.mark.full

_TRAIN = """
import shutil
import sys
import tensorflow as tf

STEPS, REMOVE = int(sys.argv[1]), sys.argv[2:]
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
x = tf.random.stateless_normal([8, 64], seed=[1, 2])
data = tf.data.Dataset.from_tensors((x, tf.reduce_sum(x, axis=1))).unbatch().batch(8).repeat()
with strategy.scope():
    w = tf.Variable(tf.zeros([64]), name="w")

def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / 8
    gradient = tape.gradient(loss, w)
    w.assign_sub(0.001 * tf.distribute.get_replica_context().all_reduce("sum", gradient))

@tf.function
def train(given):
    strategy.run(step, args=given)

for number, given in enumerate(strategy.experimental_distribute_dataset(data), 1):
    train(given)
    if REMOVE and number == 15:
        shutil.rmtree(REMOVE[0])
    if number == STEPS:
        break
print("trained", number)
"""
_WATCH = ("-m", "harness.watch", "--every", "10", "--out", "left", "train.py")
_JUDGE = ("-c", "import sys; from _lockstep.command import main; sys.exit(main())", "judge", "left", "--follow")
_PATIENCE_SECONDS = 240.0


@pytest.fixture(autouse=True)
def _place(here: Path) -> None:
    Path("train.py").write_text(_TRAIN)


def _started(*words: str) -> subprocess.Popen[str]:
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, *words], **told)  # type: ignore[call-overload,no-any-return]


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert process.returncode == 0, err
    return out, "".join(line for line in err.splitlines(keepends=True) if line.startswith("lockstep watch:"))


def _until(there: Callable[[], bool], what: str) -> None:
    never, deadline = threading.Event(), time.monotonic() + _PATIENCE_SECONDS
    while not there():
        assert time.monotonic() < deadline, what
        never.wait(0.02)


def _killed(process: subprocess.Popen[str], when: Callable[[], bool]) -> None:
    try:
        _until(when, "it had not come so far")
    finally:
        process.kill()
        process.communicate(timeout=_PATIENCE_SECONDS)


def test_a_training_and_its_judge_are_killed() -> None:
    """What is whole stays, what was judged stays judged, and the next judge goes on with what the next start leaves."""
    _killed(_started(*_WATCH, "1000000"), lambda: len(list(Path("left").glob("*/*.step"))) > 5)
    lines = Path("left", JUDGED)
    _killed(_started(*_JUDGE), lambda: lines.exists() and bool(lines.read_text()))
    before = lines.read_bytes().splitlines()
    _ended(_started(*_WATCH, "25"))
    _ended(_started(*_JUDGE))
    assert lines.read_bytes().splitlines()[: len(before)] == before
    judged = Judge(Path("left")).judged
    assert {each.outcome for each in judged} == {"consistent"}
    steps = [(training.number, step) for training in trainings(Path("left")) for step in training.steps]
    assert sorted((each.training, each.step) for each in judged) == steps


def test_a_directory_that_is_removed() -> None:
    """The training goes on, with a note."""
    out, notes = _ended(_started(*_WATCH, "60", "left"))
    assert out == "trained 60\n"
    assert "could not be left" in notes
    assert not Path("left").exists()


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare to mount a small disk with")
def test_a_disk_that_is_full() -> None:
    """The training goes on, with a note; what was whole before is judged."""
    Path("disk").mkdir()
    script = f"mount -t tmpfs -o size=64k tmpfs disk && {sys.executable} {' '.join(_WATCH)} 600 && cp -r disk/left copy"
    script = script.replace("--out left", "--out disk/left")
    mounted = subprocess.run(["unshare", "-rm", "sh", "-c", "mount -t tmpfs tmpfs disk"], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(["unshare", "-rm", "sh", "-c", script], **told)  # type: ignore[call-overload]
    out, notes = _ended(process)
    assert out == "trained 600\n"
    assert "could not be left" in notes
    assert "No space left on device" in notes
    judged = list(Judge(Path("copy")).judge())
    assert judged
    assert {each.outcome for each in judged} == {"consistent"}


def test_a_disk_that_is_slow() -> None:
    """The file of a step is a pipe that nobody reads, so that it takes for ever; the training does not wait for it."""
    process = _started(*_WATCH, "1000000")
    _until(lambda: Path("left/local-0.0/job.json").exists(), "it had not begun")
    os.mkfifo("left/local-0.0/200.part")
    try:
        _until(lambda: _digested() >= 400, "it waited for the pipe")
    finally:
        process.kill()
        _, err = process.communicate(timeout=_PATIENCE_SECONDS)
    assert "lockstep watch: steps are left out while the one before is still being written" in err
    assert max(loose_steps(Path("left/local-0.0"))) < 200


def _digested() -> int:
    return max((found[0].step for found in digests_of([Path("left/local-0.0")])), default=0)
