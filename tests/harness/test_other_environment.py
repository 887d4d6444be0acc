"""A reference of another environment: what is asked of its Python, and what becomes of the verdict."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness import verify
from harness.errors import NothingObserved
from harness.judging.environments import Environments
from harness.running.interpreter import Interpreter
from harness.running.other_environment import runs_of_environment
from harness.running.reference_request import ReferenceRequest
from harness.running.reference_runs import Runs
from harness.subject.program import Program
from simulator import RunFailed, UsageError
from tests._installed import COMMAND, run_there
from tests.harness import _programs
from tests.harness._called import usage_error

# A program whose numbers depend on what is installed, and one whose numbers do not.
TRAIN = """\
import rates


def changed(strategy, record):
    for step in range(3):
        record.step(loss=1.0 if step == 0 else rates.RATE)


def same(strategy, record):
    record.step(loss=1.0)


def crashes(strategy, record):
    if rates.RATE == 2.0:
        raise KeyError("only here")
    record.step(loss=1.0)


def silent(strategy, record):
    pass
"""


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """The file of the programs; what they import is in two versions."""
    for name, rate in (("old", 2.0), ("new", 3.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rates.py").write_text(f"RATE = {rate}\n")
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path / "train.py"


def _python(folder: Path, **variables: object) -> Path:
    """This Python, as one of an environment in which these variables make a difference."""
    path = folder / "python"
    given = " ".join(f"{name}={text}" for name, text in variables.items())
    path.write_text(f'#!/bin/sh\nexec env {given} {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def _verify(train: Path, function: str, python: Path, *options: str, code: int) -> subprocess.CompletedProcess[str]:
    """Run the command where the new version of the package is; the other Python has the old one."""
    asked = ("verify", f"{train}:{function}", "--strategy", "one_device", "--reference-python", str(python))
    start = f"import sys; sys.path.insert(1, {str(train.parent / 'new')!r}); "
    run = f"{start}sys.argv = ['lockstep', *sys.argv[1:]]; from _lockstep.command import main; main()"
    return run_there(train.parent, sys.executable, "-c", run, *asked, "--no-prove", *options, code=code)


@pytest.mark.full
def test_a_program_whose_numbers_follow_from_what_is_installed_is_inconsistent(train: Path, tmp_path: Path) -> None:
    """The first divergence is where the package is first used; against its own environment the run is consistent."""
    python = _python(tmp_path, PYTHONPATH=tmp_path / "old")
    done = _verify(train, "changed", python, "--exact", "--json", "--out", str(tmp_path / "out"), code=1)
    found = json.loads(done.stdout)
    first = found["first_divergence"]
    assert (first["step"], first["observed"], first["expected"]) == (2, 3.0, 2.0)
    assert found["environments"]["reference_python"] == str(python)
    assert found["environments"]["run"] == found["environments"]["reference"]
    assert found["environments"]["run"]["python"] == sys.version.split()[0]
    assert any("of the run's own environment the run is consistent" in note for note in found["notes"])
    again = run_there(tmp_path, *COMMAND, "report", "out", "--html", "page.html", code=1).stdout
    assert "reference and run: two environments with the same versions" in again
    assert f"reference by {python}: python " in (tmp_path / "page.html").read_text()


@pytest.mark.full
def test_a_program_whose_numbers_do_not_is_consistent(train: Path, tmp_path: Path) -> None:
    """The same command, with a program that is not touched by the difference."""
    done = _verify(train, "same", _python(tmp_path, PYTHONPATH=tmp_path / "old"), code=0)
    assert "consistent" in done.stdout
    assert "two environments" in done.stdout


@pytest.mark.full
def test_what_fails_there_fails_as_it_does_here(train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception in the reference is told with its class, its traceback and the Python; a silent program as ever."""
    monkeypatch.syspath_prepend(tmp_path / "new")
    python = _python(tmp_path, PYTHONPATH=tmp_path / "old")
    with pytest.raises(RunFailed, match="only here") as failed:
        verify(f"{train}:crashes", "one_device", reference_python=python)
    assert failed.value.root_cause.kind == "KeyError"
    assert str(python) in str(failed.value)
    assert 'raise KeyError("only here")' in str(failed.value)
    with pytest.raises(NothingObserved):
        verify(f"{train}:silent", "one_device", reference_python=python)


@pytest.mark.full
def test_a_script_has_its_reference_there(tmp_path: Path) -> None:
    """An unmodified script is its own reference in the other environment too."""
    (tmp_path / "script.py").write_text(
        "import tensorflow as tf\n\n"
        "strategy = tf.distribute.MirroredStrategy(['CPU:0', 'CPU:1'])\n"
        "with strategy.scope():\n    w = tf.Variable([1.0, 2.0], aggregation=tf.VariableAggregation.MEAN)\n\n\n"
        "def replica():\n    with tf.GradientTape() as tape:\n        loss = tf.reduce_sum(w * w) / 2\n"
        "    w.assign_sub(0.1 * tape.gradient(loss, w))\n    return loss\n\n\n"
        "step = tf.function(lambda: strategy.run(replica))\nfor _ in range(3):\n    step()\n"
    )
    python = _python(tmp_path)
    command = (*COMMAND, "verify", "--devices", "cpu:2", "--reference-python", str(python), "--json")
    found = json.loads(run_there(tmp_path, *command, "--", "python", "script.py", code=None).stdout)
    assert found["environments"]["reference_python"] == str(python)
    assert found["findings"] == []


def test_a_function_that_another_python_cannot_find_is_refused(tmp_path: Path) -> None:
    """What stands in no file by its name cannot be looked up there."""
    with pytest.raises(UsageError, match="a function at the top of a file"):
        verify(_programs.exact(), "one_device", reference_python=_python(tmp_path))


def test_another_python_that_never_answers_is_not_waited_for_without_end(tmp_path: Path) -> None:
    """It fails as a run that hangs does, and is ended; the time is that of the runs that it might make."""
    (tmp_path / "python").write_text(f"#!/bin/sh\necho $$ > {tmp_path / 'number'}\nexec sleep 600\n")
    (tmp_path / "python").chmod(0o755)
    python = Interpreter(str(tmp_path / "python"), {"tensorflow": "2.0"})
    runs = Runs(Program.of("tests/harness/_programs.py:silent"), tmp_path, 1, -59.9)  # which is 0.1 s for each
    with pytest.raises(RunFailed, match=r"did not answer within 0\.3 s, in which 3 runs could be made") as caught:
        runs_of_environment(runs, ReferenceRequest(), python)
    assert caught.value.root_cause.kind == "Hang"
    assert not psutil.pid_exists(int((tmp_path / "number").read_text()))


def test_what_needs_one_environment_is_refused(train: Path, tmp_path: Path) -> None:
    """Comparing operations is for one version."""
    asked = ["verify", f"{train}:same", "--strategy", "one_device", "--reference-python", str(_python(tmp_path))]
    assert "needs the same environment for both" in usage_error(*asked, "--explain")


def test_a_python_that_cannot_make_a_reference_is_told_what_it_lacks(tmp_path: Path) -> None:
    """None at all, no Python, without TensorFlow, without Lockstep, with another Lockstep: each says what to do."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    bare = tmp_path / "bare" / "bin" / "python"
    with pytest.raises(UsageError, match="there is no Python"):
        Interpreter.of(tmp_path / "nothing")
    with pytest.raises(UsageError, match="is no Python from"):
        Interpreter.of("/bin/true")
    with pytest.raises(UsageError, match="has no TensorFlow"):
        Interpreter.of(bare)
    site = next((tmp_path / "bare").rglob("site-packages"))
    (site / "tensorflow-2.15.1.dist-info").mkdir()
    (site / "tensorflow-2.15.1.dist-info" / "METADATA").write_text("Name: tensorflow\nVersion: 2.15.1\n")
    with pytest.raises(UsageError, match=r"TensorFlow 2\.15\.1 is refused"):
        Interpreter.of(bare)
    shutil.rmtree(site / "tensorflow-2.15.1.dist-info")
    (site / "tensorflow-2.16.2.dist-info").mkdir()
    (site / "tensorflow-2.16.2.dist-info" / "METADATA").write_text("Name: tensorflow\nVersion: 2.16.2\n")
    with pytest.raises(UsageError, match=r"has no Lockstep that can be imported .*python -m pip install"):
        Interpreter.of(bare)
    (site / "_lockstep").mkdir()
    (site / "_lockstep" / "elsewhere.py").write_text("def code():\n    return 'other'\n")
    with pytest.raises(UsageError, match="has another Lockstep"):
        Interpreter.of(bare)


def test_versions_that_differ_are_named() -> None:
    """The reference's come first; what is the same on both sides is left out."""
    old, new = (
        {"python": "3.10.1", "tensorflow": "2.16.2", "numpy": "1.26"},
        {"python": "3.10.1", "tensorflow": "2.21.0"},
    )
    assert Environments(new, old).text == "TensorFlow 2.16.2 and 2.21.0, NumPy 1.26 and none"
