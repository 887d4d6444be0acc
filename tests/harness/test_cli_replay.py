"""`lockstep replay`, and the timeline of `lockstep report`, from end to end."""

from __future__ import annotations

import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from harness.cli._saved_job import load_job
from simulator import Cluster, Topology
from tests.harness._called import json_of, lockstep, usage_error
from tests.harness._journals import KILL, killed
from tests.simulator._fake_saves import write_fakes

ROOT = Path(__file__).parents[2]
KILLED = "--fault=kind=kill,task=worker:1,step=2"
PROGRAM = """
import simulator
for number in range(1, 4):
    simulator.step()
"""


@pytest.fixture(scope="module")
def saved_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved job: two workers with three steps, of which one is killed and starts again."""
    folder = tmp_path_factory.mktemp("saved")
    (folder / "program.py").write_text(PROGRAM)
    return _saved(folder, KILLED + ",restart=0s")


@pytest.fixture
def saved(saved_once: Path) -> Path:
    """The saved job, beside its program as it was; a test may write another one there."""
    (saved_once.parent / "program.py").write_text(PROGRAM)
    return saved_once


def _saved(directory: Path, *options: str, code: int = 0) -> Path:
    out = directory / "out"
    program = [sys.executable, str(directory / "program.py")]
    lockstep("run", "--worker", "2", "--quiet", *options, "--out", out, "--", *program, code=code)
    return out


def test_the_same_history(saved: Path, tmp_path: Path) -> None:
    """Exit code 0; the second run is kept where it was asked for, and can be replayed itself."""
    again = tmp_path / "again"
    result = lockstep("replay", saved, "--quiet", "--out", again)
    assert "the same history: 2 tasks, 8 steps, 0 saves and restores, 1 faults" in result.stdout
    found = json_of("replay", again, "--quiet")
    assert (found["same"], found["difference"], found["failure"]) == (True, None, None)
    first, second = ["step 1", "step 2", "stood at step:2"], ["step 1", "step 2", "step 3"]
    assert found["history"]["worker:1"] == [*first, "a new process", *second]
    assert found["outcome"]["ended_well"]


def test_another_history(saved: Path) -> None:
    """A program that takes another number of steps now: exit code 1, and the first step that differs."""
    program = saved.parent / "program.py"
    program.write_text(PROGRAM.replace("range(1, 4)", "range(1, 5)"))
    found = json_of("replay", saved, "--quiet", code=1)
    assert not found["same"]
    assert found["difference"]["after"] == "step 3"
    assert (found["difference"]["saved"], found["difference"]["now"]) == (None, "step 4")
    assert "different: worker:" in lockstep("replay", saved, "--quiet", code=1).stdout


SAVING = """
import os, simulator, sys
os.chdir({place!r})
sys.path.insert(0, {fakes!r})
from tensorflow.python.checkpoint.checkpoint import Checkpoint
own = Checkpoint()
for number in range(1, 5):
    simulator.step()
    if number % 2 == 0:
        own.save("ckpt")
"""


def test_saves_are_part_of_the_history(tmp_path: Path) -> None:
    """A replay repeats them, the report counts them, and a program that saves in other steps has another history."""
    code = SAVING.format(fakes=write_fakes(tmp_path), place=str(tmp_path))
    (tmp_path / "program.py").write_text(code)
    out = _saved(tmp_path)
    assert "worker:1: from " in (text := lockstep("report", out).stdout)
    assert text.count("4 steps, 2 saves, exit code 0") == 2
    found = json_of("replay", out, "--quiet")
    assert found["same"], found["difference"]
    assert found["history"]["worker:0"][2] == "saved ckpt-1 by tf.train.Checkpoint.save"
    (tmp_path / "program.py").write_text(code.replace("% 2", "% 3"))
    found = json_of("replay", out, "--quiet", code=1)
    assert (found["difference"]["after"], found["difference"]["now"]) == ("step 2", "step 3")
    assert found["difference"]["saved"] == "saved ckpt-1 by tf.train.Checkpoint.save"


def test_another_failure(saved: Path) -> None:
    """A program that crashes now: exit code 3, with its failure."""
    (saved.parent / "program.py").write_text(PROGRAM + "raise SystemExit(7)")
    found = json_of("replay", saved, "--quiet", code=3)
    assert "the saved run ended well, this one failed: " in found["failure"]
    assert not found["same"]


def test_the_same_failure_is_the_same_history(tmp_path: Path) -> None:
    """A saved run that failed is reproduced by failing alike; ending well is then another outcome, not a failure."""
    (tmp_path / "program.py").write_text(PROGRAM + "raise SystemExit(7)")
    out = _saved(tmp_path, code=3)
    assert json_of("replay", out, "--quiet")["same"]


def test_a_hang_is_another_failure(saved: Path) -> None:
    """`--timeout` of the replay counts, not the saved one."""
    (saved.parent / "program.py").write_text("import threading\nthreading.Event().wait()")
    found = json_of("replay", saved, "--quiet", "--timeout", "1", code=3)
    assert found["outcome"]["root_cause"]["kind"] == "Hang"


def test_drawn_choices_are_not_drawn_again(tmp_path: Path) -> None:
    """The saved plan is the expanded one."""
    (tmp_path / "program.py").write_text(PROGRAM)
    out = _saved(tmp_path, "--fault=kind=kill,task=worker:?,step=1..3,restart=0s", "--seed", "11")
    assert "?" not in (out / "plan.toml").read_text()
    assert ".." not in (out / "plan.toml").read_text()
    assert json_of("replay", out, "--quiet")["same"]


def test_what_cannot_be_replayed(tmp_path: Path) -> None:
    """Runs of functions, runs of `verify`, and empty directories: a usage error that says which of them it is."""
    with Cluster(Topology(worker=1), preload=(), out=tmp_path / "functions") as cluster:
        cluster.run(lambda: None)
    assert "functions themselves are not saved" in usage_error("replay", tmp_path / "functions")
    (tmp_path / "verified").mkdir()
    (tmp_path / "verified" / "verdict.json").write_text("{}")
    assert "lockstep verify" in usage_error("replay", tmp_path / "verified")
    (tmp_path / "empty").mkdir()
    assert "holds no job" in usage_error("replay", tmp_path / "empty")
    (tmp_path / "empty" / "run.json").write_text("{}")
    (tmp_path / "empty" / "plan.toml").write_text("")
    assert "is damaged" in usage_error("replay", tmp_path / "empty")


def test_a_replay_does_not_overwrite_what_it_replays(saved: Path) -> None:
    """`--out` must be another directory."""
    assert "would write over" in usage_error("replay", saved, "--out", saved)


def test_report_of_a_run(saved: Path, tmp_path: Path) -> None:
    """Text, JSON, a page and a trace, from the directory that `run` has written."""
    text = lockstep("report", saved).stdout
    assert "worker:1, incarnation 1: from " in text
    assert "kill-1  kill  step=2 of worker:1" in text
    fault = json_of("report", saved)["runs"][0]["faults"][0]
    assert fault["recovery_seconds"] > 0
    files = [tmp_path / name for name in ("page.html", "trace.json")]
    assert lockstep("report", saved, "--html", files[0], "--trace", files[1]).stdout == ""
    ET.parse(files[0])
    assert json.loads(files[1].read_text())["traceEvents"]


def test_report_of_a_cluster_run_with_several_journals(tmp_path: Path) -> None:
    """`Cluster(out=)` numbers its runs; each has its own part."""
    for number in ("0", "1"):
        killed().save(tmp_path / number, KILL)
    text = lockstep("report", tmp_path).stdout
    assert "0: 2 worker, 5.1 s" in text
    assert "1: 2 worker, 5.1 s" in text


def test_what_holds_nothing_to_report_says_so(tmp_path: Path) -> None:
    """A directory that is missing, one without anything, and that of a run which was killed."""
    assert "there is no directory" in usage_error("report", tmp_path / "out")
    assert "neither a run nor a matrix" in usage_error("report", tmp_path)
    (tmp_path / "run.json").write_text("{}")
    assert "has not come to an end" in usage_error("report", tmp_path)


def test_a_matrix_has_no_trace(tmp_path: Path) -> None:
    """What has no timeline says so."""
    assert "no timeline" in usage_error("report", tmp_path, "--trace", tmp_path / "t.json")


@pytest.mark.full  # in the quick profile test_faults_tensorflow compares the histories of two real trainings
def test_a_real_training_is_replayed(tmp_path: Path) -> None:
    """TensorFlow's steps, and where they stood for a fault, are the same a second time; deaths are replayed above."""
    program = [sys.executable, str(ROOT / "examples" / "programs" / "train_loop.py"), "5"]
    options = ["--fault", "kind=pause,task=worker:0,step=3,duration=10ms", "--timeout", "120", "--quiet"]
    ran = json_of("run", "--worker", "1", *options, "--out", tmp_path / "out", "--", *program)
    assert ran["steps_counted_by"] == ["outermost calls of tf.functions"]
    assert [task["steps"] for task in ran["tasks"].values()] == [5]
    assert "5 steps, loss " in (tmp_path / "out" / "0" / "logs" / "worker-0.log").read_text()
    found = json_of("replay", tmp_path / "out", "--quiet")
    assert found["same"], found["difference"]
    assert found["history"]["worker:0"] == [*(f"step {n}" for n in (1, 2, 3)), "stood at step:3", "step 4", "step 5"]
    assert json_of("report", tmp_path / "out")["runs"][0]["faults"][0]["kind"] == "pause"


def test_an_argument_that_is_not_utf_8_is_kept(tmp_path: Path) -> None:
    """Arguments are bytes: JSON has an escape for such a one, and the saved job has it as it was."""
    word = os.fsdecode(b"\xff2")
    argv = [sys.executable, "-c", "import os, sys; sys.exit(os.fsencode(sys.argv[1]) != b'\\xff2')", word]
    said = json_of("run", "--worker=1", "--quiet", f"--out={tmp_path / 'out'}", "--", *argv)
    assert (said["ended_well"], said["command"][-1]) == (True, "\\udcff2")
    job, _, _ = load_job(tmp_path / "out")
    assert job.command == tuple(argv)
    assert job.in_hex == ()
