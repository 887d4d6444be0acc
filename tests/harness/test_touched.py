"""Which files a process notes that it has touched."""

from __future__ import annotations

import os
from pathlib import Path

from harness.evidence.independence import read_touched
from harness.recording.touched import _Touched


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
