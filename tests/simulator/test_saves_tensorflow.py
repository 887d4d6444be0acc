"""Saves and restores of TensorFlow, Keras 3 and tf_keras as events, in functions and in unmodified programs."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunResult, Topology
from simulator.faults import Crash
from simulator.faults.history import canonical_history
from simulator.launch.forkserver import DEFAULT_PRELOAD
from tests.simulator._fake_saves import saves_of
from tests.simulator._faults import plan_of

ONE = Topology(worker=1)
# Everything is saved below the working directory, so that paths are the same in each run.
TENSORFLOW = """
import tensorflow as tf
value = tf.Variable([1.0, 2.0])
checkpoint = tf.train.Checkpoint(value=value)
manager = tf.train.CheckpointManager(checkpoint, "managed", max_to_keep=1, checkpoint_interval=5, step_counter=value[0])
manager.restore_or_initialize()
checkpoint.restore(tf.train.latest_checkpoint("managed"))
manager.save()
manager.save()  # nothing to do: no step has been counted since
checkpoint.read(checkpoint.write("written"))
checkpoint.save("saved").encode()
manager.restore_or_initialize()
options = tf.train.CheckpointOptions(enable_async=True)
checkpoint.save("later", options=options)
aside = tf.train.CheckpointManager(checkpoint, "aside", max_to_keep=1)
aside.save(options=options)
aside.sync()
checkpoint.sync()
write = tf.function(lambda: checkpoint.write("traced"))
write()
module = tf.Module()
module.value = value
tf.saved_model.save(module, "exported")
tf.saved_model.load("exported")
try:
    checkpoint.restore("missing")
except tf.errors.NotFoundError:
    pass
"""
EXPECTED_TENSORFLOW = [
    ("restore", "tf.train.Checkpoint.restore", None, None),
    ("save", "tf.train.CheckpointManager.save", "managed/ckpt-1", None),
    ("save", "tf.train.Checkpoint.write", "written", None),
    ("restore", "tf.train.Checkpoint.read", "written", None),
    ("save", "tf.train.Checkpoint.save", "saved-2", None),
    ("restore", "tf.train.CheckpointManager.restore_or_initialize", "managed/ckpt-1", None),
    ("save", "tf.train.Checkpoint.save", "later-1", "call"),
    ("save", "tf.train.CheckpointManager.save", "aside/ckpt-2", "call"),
    ("save", "tf.saved_model.save", "exported", None),
    ("restore", "tf.saved_model.load", "exported", None),
    ("restore", "tf.train.Checkpoint.restore", "missing", None),
]
KERAS = """
import tensorflow as tf, {package} as keras
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
callbacks = [keras.callbacks.ModelCheckpoint("best-{{epoch}}.keras"), keras.callbacks.BackupAndRestore("backup")]
model.fit(tf.ones((4, 2)), tf.ones((4, 1)), batch_size=4, epochs=2, verbose=0, callbacks=callbacks)
model.save("model.keras")
model.save_weights("model.weights.h5")
model.load_weights("model.weights.h5")
keras.models.load_model("model.keras")
keras.saving.load_model(filepath="model.keras")
try:
    model.load_weights("missing.weights.h5")
except OSError:
    pass
"""


def _expected_keras(package: str) -> list[tuple[Any, ...]]:
    backup: list[tuple[Any, ...]]
    if package == "keras":
        backup = [("save", "keras.Model.save_weights", "backup/latest.weights.h5", None)] * 2
    else:
        kind = "tf.train.CheckpointManager.save"
        backup = [("save", kind, f"backup/chief/ckpt-{number}", None) for number in (1, 2)]
    epochs = [[("save", f"{package}.Model.save", f"best-{n}.keras", None), backup[n - 1]] for n in (1, 2)]
    return [
        *epochs[0],
        *epochs[1],
        ("save", f"{package}.Model.save", "model.keras", None),
        ("save", f"{package}.Model.save_weights", "model.weights.h5", None),
        ("restore", f"{package}.Model.load_weights", "model.weights.h5", None),
        ("restore", f"{package}.saving.load_model", "model.keras", None),
        ("restore", f"{package}.saving.load_model", "model.keras", None),
        ("restore", f"{package}.Model.load_weights", "missing.weights.h5", None),
    ]


def _run_as(way: str, code: str, place: Path, **options: Any) -> RunResult:
    """Run this code in a task, in a directory of its own, as an unmodified program or called as a function."""
    (place / "work").mkdir(parents=True)
    (place / "work" / "program.py").write_text(code)

    def call(directory: str) -> None:
        import os

        os.chdir(directory)
        runpy.run_path("program.py", run_name="__main__")

    preload = () if way == "program" else DEFAULT_PRELOAD
    # The AutoGraph of TensorFlow 2.16 converts all of tf_keras, which costs the first fit of a process 15 s of a core.
    with Cluster(ONE, timeout=300, out=place / "out", preload=preload, **options) as cluster:
        if way == "program":
            return cluster.run_command([sys.executable, "program.py"], cwd=place / "work")
        return cluster.run(call, str(place / "work"))


def _short(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["event"], event["kind"], event["path"], event["asynchronous"]


@pytest.mark.full
@pytest.mark.parametrize("way", ["program", "function"])
def test_every_kind_of_save_is_an_event(tmp_path: Path, way: str) -> None:
    """One for each outermost call, of both Kerases and their callbacks, of checkpoints and saved models; of
    asynchronous checkpoints also the end, with the bytes that were written.
    """
    # In one process, since importing TensorFlow takes longer than everything else here.
    parts = (KERAS.format(package="keras"), KERAS.format(package="tf_keras"), TENSORFLOW)
    place = "import os\nos.makedirs('{0}')\nos.chdir('{0}')\n"
    _run_as(way, "".join(place.format(f"part-{number}") + code for number, code in enumerate(parts)), tmp_path)
    events = saves_of(tmp_path / "out")
    behind = [event for event in events if event["asynchronous"] == "thread"]
    assert [event["path"] for event in behind] == ["later-1", "aside/ckpt-2"]
    kerases = [*_expected_keras("keras"), *_expected_keras("tf_keras")]
    assert [_short(event) for event in events if event not in behind] == [*kerases, *EXPECTED_TENSORFLOW]
    failed = [event["failed"] for event in events if event["failed"]]
    assert failed == ["FileNotFoundError", "FileNotFoundError", "NotFoundError"]
    if way == "program":  # counted in fit
        assert [event["step"] for event in events[: len(kerases)]] == [1, 1, 2, 2, *[2] * 6, 3, 3, 4, 4, *[4] * 6]
    for event in events[len(kerases) :]:
        written = event["event"] == "save" and event["asynchronous"] != "call"
        assert (event["bytes"] is not None and event["bytes"] > 100) == written, event


def test_real_saves_are_in_the_history(tmp_path: Path) -> None:
    """A program that saves once more has one line more in its history, and all others as before."""
    histories: list[list[str]] = []
    for name, code in (("a", TENSORFLOW), ("b", TENSORFLOW + "checkpoint.save('more')\n")):
        _run_as("function", code, tmp_path / name)
        histories.append([*canonical_history(tmp_path / name / "out" / "0" / "journal.jsonl")])
    first, second = histories
    second.remove("worker:0: saved more-3 by tf.train.Checkpoint.save")
    assert first == second


@pytest.mark.parametrize("package", ["keras", pytest.param("tf_keras", marks=pytest.mark.full)])
def test_phases_are_points_of_every_kind_of_save(tmp_path: Path, package: str) -> None:
    """A fault waits for the second save of a model to a `.keras` file, which goes through no checkpoint."""
    code = KERAS.format(package=package).partition("model.save(")[0]
    code = code.replace("callbacks=callbacks", "callbacks=callbacks[:1]")
    plan = plan_of(Crash("worker:0", how="exit", code=7, phase="before_save", nth=2, restart="0s"))
    _run_as("function", code, tmp_path, faults=plan)
    events = saves_of(tmp_path / "out")
    first, second = [event for event in events if event["incarnation"] == 0]
    assert (first["path"], first["unfinished"]) == ("best-1.keras", False)
    assert (second["path"], second["unfinished"], second["failed"]) == ("best-2.keras", True, None)
    assert [event["path"] for event in events if event["incarnation"] == 1][:2] == ["best-1.keras", "best-2.keras"]
