"""A project of somebody else's, with Lockstep installed: its tests, from its own folder."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests._installed import COMMAND, ROOT, run_there

DOWNSTREAM = ROOT / "examples" / "downstream"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, in which nothing of the checkout is found by chance."""
    return Path(shutil.copytree(DOWNSTREAM, tmp_path / "downstream", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.mark.full
def test_its_tests_pass_and_leave_a_matrix(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With xdist, a cache that outlives the session, a summary and a report; and a mistake in the trainer is found."""
    monkeypatch.setenv("LOCKSTEP_CACHE", str(project / "cache"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    command = (sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-n", "2", "--lockstep-out=out")
    run_there(project, *command)
    assert json.loads((project / "out" / "matrix.json").read_text())["counts"]["ok"] == 1
    assert "1 ok" in (project / "summary.md").read_text()
    run_there(project, *COMMAND, "report", "out", "--html", "matrix.html")
    assert "mirrored-2" in (project / "matrix.html").read_text()
    trainer = project / "digits_trainer" / "training.py"
    right = "tf.nn.compute_average_loss(losses, global_batch_size=self.config.global_batch)"
    assert right in trainer.read_text()
    trainer.write_text(trainer.read_text().replace(right, "tf.reduce_mean(losses)"))
    done = run_there(project, *command, code=1)
    assert "loss_times_replicas" in done.stdout


def test_the_workflow_is_what_the_page_shows() -> None:
    """Its commands are those of the page, and it caches what the page says."""
    text = (DOWNSTREAM / ".github" / "workflows" / "lockstep.yml").read_text()
    for wanted in ("install: .[test]", "pytest: -n auto --profile=", "cache-key: ${{ hashFiles('data/**'"):
        assert wanted in text
    lines = [line.strip() for line in (ROOT / "action.yml").read_text().splitlines()]
    (key,) = (line for line in lines if line.startswith("restore-keys: "))
    assert key.endswith("-${{ inputs.cache-key }}-"), "an older cache may be of other data"
