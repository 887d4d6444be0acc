"""State outside of `record.directory`: a run that reads what another one has written is refused, whatever it shows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import SharedState, verify
from harness.evidence.independence import Touch, check_independent, notes_of, read_touched, reads_back
from harness.recording.client import Assignment, run_client
from harness.recording.file_access import _of_flags, _of_mode
from harness.running.cache import CACHE_VARIABLE
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import Cluster, RunFailed


@pytest.fixture(autouse=True)
def _own_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "references"))


def _touches(*accesses: tuple[str, float]) -> list[Touch]:
    """`("w", 1.0)` is a file that is written at second 1, `("r", 2.0)` the same one read."""
    return [Touch("/state", at, writes=kind == "w") for kind, at in accesses]


@pytest.mark.parametrize(
    ("reference", "run", "fine"),
    [
        ([("w", 1)], [("r", 2)], False),
        ([("w", 1)], [("r", 2), ("w", 3)], False),
        ([("w", 1)], [("w", 2), ("r", 3)], True),
        ([("w", 1), ("w", 3)], [("w", 2), ("r", 4)], False),
        ([("w", 1)], [("w", 2)], True),
        ([("r", 1)], [("r", 2)], True),
        ([("r", 1)], [("r", 2), ("w", 3)], True),
        ([("r", 1), ("w", 2)], [("r", 3), ("w", 4)], False),
        ([("r", 3)], [("w", 2)], False),
        ([("w", 1), ("r", 2)], [("w", 3), ("r", 4)], True),
    ],
)
def test_who_has_written_last_decides(reference: Any, run: Any, fine: bool) -> None:
    """A file that was there before, or that a run has written itself, may be read; another run's may not."""
    runs = {"the reference": _touches(*reference), "the run": _touches(*run)}
    if fine:
        check_independent("train", runs)
        return
    with pytest.raises(SharedState, match=r"train: the .* has read /state, which the .* had written") as caught:
        check_independent("train", runs)
    assert "record.directory" in str(caught.value)


def test_who_reads_back_what_it_writes_runs_alone() -> None:
    """Two such reruns at the same time would read each other's file; logs and data do not matter."""
    assert reads_back(_touches(("w", 1), ("r", 2)))
    assert not reads_back(_touches(("w", 1), ("w", 2)))
    assert not reads_back([*_touches(("r", 1)), Touch("/log", 2, writes=True)])


def test_modes_and_flags_say_what_may_be_read() -> None:
    """What truncates reads nothing of before; appending only writes."""
    modes = {"r": (True, False), "rb": (True, False), "w": (False, True), "ab": (False, True), "x": (False, True)}
    assert {mode: _of_mode(mode) for mode in modes} == modes
    assert (_of_mode("r+b"), _of_mode("ab+"), _of_mode("w+")) == ((True, True), (True, True), (False, True))
    assert _of_flags(os.O_RDONLY) == (True, False)
    assert _of_flags(os.O_WRONLY | os.O_CREAT | os.O_APPEND) == (False, True)
    assert _of_flags(os.O_RDWR) == (True, True)


def _by_all_means(directory: str, *, saves: bool) -> None:
    """Write a file in each way, or read it; the name says how."""
    import keras
    import numpy as np
    import tensorflow as tf

    os.chdir(directory)
    # Not model.weights.h5, see below.
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    data = tf.data.Dataset.range(2)
    if saves:
        np.save("numpy.npy", np.ones(1))
        Path("renamed.part").write_text("x")
        Path("renamed.part").replace("renamed")
        model.save("model.keras")
        model.save_weights("of.weights.h5")
        tf.train.Checkpoint(model=model).save("checkpoint")
        tf.io.gfile.GFile("gfile", "w").write("x")
        tf.io.gfile.copy("gfile", "copied")
        tf.io.write_file("op", "x")
        data.save("dataset")
        list(data.cache("cache"))
        tf.saved_model.save(tf.Module(), "saved_model")
        return
    np.load("numpy.npy")
    Path("renamed").read_text()
    keras.saving.load_model("model.keras")
    model.load_weights("of.weights.h5")
    tf.train.Checkpoint(model=model).restore(tf.train.latest_checkpoint("."))
    tf.train.load_checkpoint("checkpoint-1")
    tf.io.gfile.GFile("copied").read()
    tf.io.read_file("op")
    tf.data.Dataset.load("dataset")
    list(data.cache("cache"))
    tf.saved_model.load("saved_model")


_MEANS = {"numpy.npy", "renamed", "model.keras", "of.weights.h5", "checkpoint-1", "copied", "op", "dataset", "cache"}


def test_every_way_to_a_file_is_noted(tmp_path: Path) -> None:
    """Python's own, Keras's, HDF5's and TensorFlow's in C++; to an absolute path, as all are noted."""
    place, ours = tmp_path / "place", tmp_path / "ours"
    place.mkdir()
    touched = {}
    for saves in (True, False):

        def train(strategy: Any, record: Any, saves: bool = saves) -> None:
            _by_all_means(str(place), saves=saves)
            (record.directory / "mine").write_text("of this run")
            record.step(loss=1.0)

        folder = ours / str(saves)
        for name in ("traces", "kept"):
            (folder / name).mkdir(parents=True)
        assignment = Assignment(str(folder / "traces"), str(folder / "kept"), seed=7)
        case = strategy_case("default")
        with Cluster(case.topology, timeout=120) as cluster:
            cluster.run(run_client, Program.of(train), case, assignment)
        touched[saves] = read_touched(folder / "traces")
    written = {touch.path for touch in touched[True] if touch.writes}
    read = {touch.path for touch in touched[False] if not touch.writes}
    expected = {str(place / name) for name in (*_MEANS, "saved_model")}
    assert expected <= written
    assert expected <= read
    assert not any(path.startswith(str(ours)) for path in (*written, *read))
    # Keras 3.4 puts such a file beside a .keras file that it saves or loads, and then removes it.
    assert {touch.path for touch in touched[False] if touch.writes} <= {str(place / "model.weights.h5")}


def _resuming(path: str) -> Callable[[Any, Any], None]:
    """Trains two steps, or continues what it finds at this path."""

    def train(strategy: Any, record: Any) -> None:
        import numpy as np

        w = np.load(path) if Path(path).exists() else np.zeros(())
        while w < 2:
            w = w + 1
            record.step(loss=float(w))
        np.save(path, w)
        record.final(metrics={"w": w})

    return train


@pytest.mark.parametrize("relative", [False, True])
def test_a_reference_that_goes_on_where_the_run_ended_is_refused(relative: bool, here: Path) -> None:
    """It never trains, and its numbers at the end are right: by a fixed path, or in the working directory."""
    train = _resuming("state.npy" if relative else str(here / "state.npy"))
    with pytest.raises(SharedState, match=r"the reference run has read .*state\.npy, which the run under mirrored-2"):
        verify(train, "mirrored-2", tier="exact")


@pytest.mark.full
def test_reruns_of_the_reference_are_as_independent(tmp_path: Path) -> None:
    """A rerun that reads what the plain reference has left has no spread, and says nothing of rounding."""
    # The first two run at once: the later one has read what the other had written, or both are run again, in turn.
    writer = r"(an earlier run of the reference|the reference run|the run under default)"
    with pytest.raises(SharedState, match=rf"the reference run.* has read .*, which {writer}"):
        verify(_resuming(str(tmp_path / "state.npy")), "default")


def test_state_is_named_also_where_it_ends_the_run(tmp_path: Path) -> None:
    """A run that fails because of what it finds has that for its cause; one that fails by itself has not."""
    path = tmp_path / "state"

    def train(strategy: Any, record: Any) -> None:
        if path.exists() and path.read_text():
            raise ValueError("this state has another shape")
        path.write_text("x")
        record.step(loss=1.0)

    with pytest.raises(SharedState, match=r"has read .*state, which"):
        verify(train, "mirrored-2", tier="exact")

    def broken(strategy: Any, record: Any) -> None:
        record.step(loss=1.0)
        if strategy.num_replicas_in_sync > 1:
            raise ValueError("by itself")

    with pytest.raises(RunFailed, match="by itself"):
        verify(broken, "mirrored-2", tier="exact")


def test_files_that_prove_nothing_are_let_alone(tmp_path: Path) -> None:
    """Data that was there, logs written or added to, what a run reads back, and its own directory are all fine."""
    np.save(tmp_path / "data.npy", np.arange(3.0))

    def train(strategy: Any, record: Any) -> None:
        import numpy as np
        import tensorflow as tf

        data = np.load(tmp_path / "data.npy")
        with tf.summary.create_file_writer(str(tmp_path / "board")).as_default():
            tf.summary.write("loss", data[0], step=0)
        (tmp_path / "log.txt").write_text("started anew")
        with (tmp_path / "appended.txt").open("a") as file:
            file.write("ran")
        os.close(os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT))
        tf.train.Checkpoint(w=tf.Variable(1.0)).write(str(tmp_path / "best"))
        tf.train.Checkpoint(w=tf.Variable(1.0)).read(str(tmp_path / "best"))
        (record.directory / "state").write_text("x")
        assert (record.directory / "state").read_text() == "x"
        strategy.run(lambda: None)
        for loss in data:
            record.step(loss=loss)

    verdict = verify(train, "mirrored-2")
    assert verdict, str(verdict)
    assert (tmp_path / "appended.txt").read_text().count("ran") >= 2


def test_a_data_set_that_the_first_run_prepares_is_refused_once(tmp_path: Path) -> None:
    """The run saw the reference's preparation and not its own; once it is there before, all runs may read it."""
    path = tmp_path / "prepared.npy"

    def train(strategy: Any, record: Any) -> None:
        import numpy as np

        if not path.exists():
            np.save(path, np.arange(3.0))
        strategy.run(lambda: None)
        for loss in np.load(path):
            record.step(loss=loss)

    with pytest.raises(SharedState, match="prepared data, has to be there before the verification"):
        verify(train, "mirrored-2", tier="exact")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(tmp_path / "another session"))
        assert verify(train, "mirrored-2", tier="exact")


def test_a_note_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    """The notes before it count."""
    notes = notes_of(tmp_path / "worker-0.trace")
    notes.write_bytes(b'["/a",1.0,true]\n["/b",2.0,fa')
    assert read_touched(tmp_path) == (Touch("/a", 1.0, writes=True),)
