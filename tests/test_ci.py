"""What the action for GitHub and the template for GitLab do in a shell, run as it stands in their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests._installed import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed; make venv installs it")

# Instead of pip, lockstep and pytest: notes how it was called, and ends as its arguments say.
FAKE = """#!{python} -IS
import json, os, pathlib, sys
name, *words = pathlib.Path(sys.argv[0]).name, *sys.argv[1:]
with open(os.environ["CALLS"], "a") as file:
    print(json.dumps([name, *words]), file=file)
print("[]", sys.stdin.read(), end="")
if name == "pytest":
    pathlib.Path("lockstep-out/matrix.json").write_text("{{}}")
sys.exit(next((int(word[7:]) for word in words if word.startswith("--code=")), 0))
"""
TINY = """
def train(strategy, record):
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    batches = tf.data.Dataset.from_tensor_slices(tf.range(8.0)).batch(4)
    distributed = strategy.experimental_distribute_dataset(batches)

    def step(x):
        loss = tf.reduce_{reduced}(weight * x){divided}
        weight.assign_sub(0.01 * tf.reduce_{reduced}(x){divided})
        return loss

    for x in distributed:
        record.step(loss=strategy.reduce("SUM", strategy.run(step, args=(x,)), axis=None), variables=[weight])
"""


def _steps() -> dict[str, dict[str, Any]]:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    return {step["name"]: step for step in action["runs"]["steps"] if "run" in step}


def _script(where: str) -> str:
    """What the shell of a service is given, which ends at the first error."""
    if where != "gitlab":
        return str(_steps()[where]["run"])
    return "\n".join(yaml.safe_load((ROOT / "ci" / "lockstep.gitlab-ci.yml").read_text())[".lockstep"]["script"])


def _bash(where: str, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As GitHub's runner calls it for `shell: bash`."""
    script = folder / "step.sh"
    script.write_text(_script(where))
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    hidden = {"PYTHONPATH", "PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY", "LOCKSTEP_CULPRIT", "LOCKSTEP_PROVE"}
    inherited = {name: text for name, text in os.environ.items() if name not in hidden}
    return subprocess.run(
        command,
        cwd=folder,
        env={**inherited, **environ},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )


@pytest.fixture
def fakes(tmp_path: Path) -> dict[str, str]:
    """Variables with which a shell finds programs that only note how they are called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "lockstep", "pytest"):
        (folder / name).write_text(FAKE.format(python=sys.executable))
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "CALLS": str(tmp_path / "calls")}


def _calls(environ: dict[str, str]) -> list[list[str]]:
    return [json.loads(line) for line in Path(environ["CALLS"]).read_text().splitlines()]


def test_the_action_installs_its_own_revision_or_what_is_asked_for(tmp_path: Path, fakes: dict[str, str]) -> None:
    """Without a version or a URL it is what the runner has checked out; words may have quotes."""
    install = {"INSTALL": '".[test,other extra]" -r requirements.txt', "ACTION_PATH": "/actions/lockstep"}
    for asked, gets in (("", "/actions/lockstep"), ("tf-lockstep==1.0", "tf-lockstep==1.0")):
        done = _bash("install", tmp_path, {**fakes, **install, "LOCKSTEP": asked})
        assert done.returncode == 0, done.stderr
        pip, doctor = _calls(fakes)[-2:]
        assert pip == ["python", "-m", "pip", "install", gets, ".[test,other extra]", "-r", "requirements.txt"]
        assert doctor == ["lockstep", "doctor"]


@pytest.mark.parametrize("where", ["verify", "gitlab"])
def test_each_line_is_a_verification(where: str, tmp_path: Path, fakes: dict[str, str]) -> None:
    """All are run, also after one that fails, with their words as they are; then pytest, and a page of its matrix."""
    lines = "train.py:train --strategy 'mirrored-2' --code=1\n\n--worker 2 -- python train.py '$(touch no)' a\\ b\n"
    variables = {"VERIFY": lines, "PYTEST": "-k 'one and two'", "LOCKSTEP": "somewhere"}
    done = _bash(where, tmp_path, {**fakes, **variables})
    assert done.returncode == 1, done.stderr
    form = {"verify": "github", "gitlab": "gitlab"}[where]
    verify = ["lockstep", "verify", "--format", form, "--html"]
    assert _calls(fakes)[-4:] == [
        [*verify, "lockstep-out/verify-1.html", "train.py:train", "--strategy", "mirrored-2", "--code=1"],
        [*verify, "lockstep-out/verify-2.html", "--worker", "2", "--", "python", "train.py", "$(touch no)", "a b"],
        ["pytest", "--lockstep-out=lockstep-out", "--junitxml=lockstep-out/junit.xml", "-k", "one and two"],
        ["lockstep", "report", "lockstep-out", "--html", "lockstep-out/matrix.html", "--format", form],
    ]
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("where", ["verify", "gitlab"])
@pytest.mark.parametrize("variables", [{"VERIFY": "", "PYTEST": ""}, {"VERIFY": "train.py 'open", "PYTEST": ""}])
def test_what_is_asked_for_wrongly_is_not_green(
    where: str, variables: dict[str, str], tmp_path: Path, fakes: dict[str, str]
) -> None:
    """Nothing to do, and a quote that is not closed."""
    assert _bash(where, tmp_path, {**fakes, **variables, "LOCKSTEP": "somewhere"}).returncode not in (0, 127)


def test_a_failure_of_pytest_alone_fails(tmp_path: Path, fakes: dict[str, str]) -> None:
    """Its exit code is that of the step."""
    assert _bash("verify", tmp_path, {**fakes, "VERIFY": "", "PYTEST": "--code=3"}).returncode == 3


def test_every_input_is_used_and_none_is_pasted() -> None:
    """Inputs reach a shell as variables only, where they are data."""
    text = (ROOT / "action.yml").read_text()
    action = yaml.safe_load(text)
    assert [name for name in action["inputs"] if text.count(f"inputs.{name}") == 0] == []
    assert [step for step in _steps().values() if "${{" in step["run"]] == []


@pytest.mark.full  # verifies with TensorFlow, three times
def test_the_step_annotates_what_is_wrong(tmp_path: Path) -> None:
    """A right program and a wrong one: pages of both, a line for the pull request, and exit code 1; also by pytest."""
    (tmp_path / "right.py").write_text(TINY.format(reduced="sum", divided=" / 4.0"))
    wrong = TINY.format(reduced="mean", divided="")
    (tmp_path / "wrong.py").write_text(wrong)
    (tmp_path / "test_it.py").write_text(
        "from harness import verify\nimport wrong\n\ndef test_it():\n    assert verify(wrong.train, 'mirrored-2')\n"
    )
    environ = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "LOCKSTEP_CACHE": "kept"}
    asked = {"VERIFY": "right.py:train\nwrong.py:train --strategy mirrored-2", "PYTEST": "-q test_it.py"}
    done = _bash("verify", tmp_path, {**environ, **asked, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 1, done.stdout + done.stderr
    annotations = [line for line in done.stdout.splitlines() if line.startswith("::error ")]
    assert len(annotations) == 2, done.stdout + done.stderr
    assert all("file=wrong.py,line=" in line for line in annotations)
    pages = {path.name for path in (tmp_path / "lockstep-out").glob("*.html")}
    assert pages == {"verify-1.html", "verify-2.html", "matrix.html"}
