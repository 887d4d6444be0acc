"""The run behind the picture in README.md: real training, a slow link, a killed worker."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.report.timeline import timeline_svg

ROOT = Path(__file__).parents[2]


@pytest.mark.full  # docs/timeline.md draws a run, and test_timeline every event
def test_the_picture_of_a_real_run(tmp_path: Path) -> None:
    """A survivor detects the kill within seconds, the job goes on from its checkpoint, nobody fails of the delay."""
    spec = importlib.util.spec_from_file_location("update_timeline", ROOT / "tools" / "update_timeline.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    timeline = script.timeline_of_a_real_run(tmp_path, steps=34)
    delay, kill = timeline.faults
    assert (delay.problem, delay.detected) == (None, None)
    assert delay.effect["round_trip_seconds"] > 0.02
    assert kill.detected.task in ("worker:0", "worker:2")
    assert kill.detected.what.startswith("UnavailableError")
    assert 0 < kill.detection_seconds < kill.recovery_seconds
    assert (kill.recovered.task, kill.recovered.what) == ("worker:1", "step 1, incarnation 1")
    assert [len(life.steps) for life in timeline.lives_of("worker:1")] == [30, 10]
    before, after = (timeline.saves_of("worker:1", incarnation) for incarnation in (0, 1))
    assert [save.path for save in before] == [f"worker-1/ckpt-{number}" for number in (1, 2, 3)]
    assert [(save.restores, save.path) for save in after] == [(True, "worker-0/ckpt-3"), (False, "worker-1/ckpt-4")]
    assert all(0 < save.end - save.begin < 10 for save in (*before, *after))
    ET.fromstring(timeline_svg(timeline))


def test_the_picture_in_the_readme() -> None:
    """It is there, well-formed, and names nothing of the machine that it was made on."""
    picture = (ROOT / "docs" / "images" / "timeline.svg").read_text()
    ET.fromstring(picture)
    assert "docs/images/timeline.svg" in (ROOT / "README.md").read_text()
    assert "delay-1 struck at" in picture
    assert "kill-2 struck at" in picture
    assert "worker:1: saved worker-1/ckpt-3" in picture
    assert "worker:1: restored worker-0/ckpt-3" in picture
    assert "/home" not in picture
    assert "/tmp" not in picture
