"""Which files a process notes that it has touched."""

from __future__ import annotations

import os
from pathlib import Path

from harness.evidence.independence import read_touched
from harness.recording.file_access import _Touched
from simulator import Cluster, Topology


def test_a_nameless_file_of_its_own_folder_is_none(tmp_path: Path) -> None:
    """It is opened by the name of the folder; that of another folder is noted, also one whose name begins so."""
    own, other = tmp_path / "own", tmp_path / "own-not"
    for folder in (own, other):
        folder.mkdir()
    touched = _Touched(tmp_path / "one.files", [str(own)])
    touched.hear("open", (str(own), None, os.O_RDWR | os.O_TMPFILE))
    touched.hear("open", (str(own / "a"), "w", 0))
    assert read_touched(tmp_path) == ()
    touched.hear("open", (str(other), None, os.O_RDWR | os.O_TMPFILE))
    assert [(each.path, each.writes) for each in read_touched(tmp_path)][-1] == (str(other.resolve()), True)


def _saves(place: str) -> dict[str, list[bool]]:
    """Of what saves, whether its file was there each time that it was to wait."""
    import tensorflow as tf

    from harness.recording.file_access import note_files

    found: dict[str, list[bool]] = {}
    saving = ""

    def until() -> None:
        found.setdefault(saving, []).append(bool(list(Path(place).glob(f"{saving}*"))))

    note_files(Path(place, "notes.files"), [Path(place, "own")], until)
    checkpoint = tf.train.Checkpoint(weight=tf.Variable(1.0))
    for saving in ("written", "saved", "own"):
        prefix = str(Path(place, saving, "own") if saving == "own" else Path(place, saving))
        (checkpoint.save if saving == "saved" else checkpoint.write)(prefix)
    saving = "directory"
    tf.io.gfile.makedirs(str(Path(place, saving)))
    return found


def test_a_checkpoint_waits_before_any_of_its_files_is_there(tmp_path: Path) -> None:
    """That of TensorFlow, which no event of Python's tells of; one of the process's own does not."""
    (tmp_path / "own").mkdir()
    with Cluster(Topology(worker=1)) as cluster:
        found = cluster.run(_saves, str(tmp_path))["worker:0"].value
    assert set(found) == {"written", "saved", "directory"}
    assert not any(each[0] for each in found.values())
