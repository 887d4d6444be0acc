"""The commands where the world is not as it should be: no output, signals at bad moments, small limits, odd places."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli import limit_of
from tests.harness._called import called, usage_error

LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
SECONDS_MAX = 120
JOB = ["run", "--worker", "1", "--", sys.executable, "-c", "print('here')"]
FAILING = ["run", "--worker", "1", "--", sys.executable, "-c", "raise SystemExit(7)"]


def _shell(redirection: str, *arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, with these redirections; `$?` of a pipe is the command's."""
    code = f'set -o pipefail; {setup} "$@" {redirection}'
    command = ["bash", "-c", code, "bash", *LOCKSTEP, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


@pytest.mark.parametrize("redirection", ["| true", ">&- 2>&- <&-", "2>/dev/full"])
@pytest.mark.parametrize(
    ("arguments", "code"), [(["strategies"], 0), (["nonsense"], 2)], ids=["strategies", "nonsense"]
)
def test_output_that_nobody_reads_changes_no_exit_code(redirection: str, arguments: list[str], code: int) -> None:
    """A reader that has gone, a stream that was closed from the start, a full file behind stderr."""
    done = _shell(redirection, *arguments)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(("job", "code"), [(JOB, 0), (FAILING, 3)], ids=["ends well", "fails"])
def test_a_job_whose_output_nobody_reads_runs_as_ever(job: list[str], code: int) -> None:
    """Its tasks get descriptors of their own, and its live lines go nowhere."""
    done = _shell("2>&1 | true" if code else ">&- 2>&- <&-", *job)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("arguments", [["strategies"], ["run", "--help"]])
def test_a_full_stdout_is_said_and_is_not_inconsistent(arguments: list[str]) -> None:
    """One sentence, and an exit code that no verdict has."""
    done = _shell(">/dev/full", *arguments)
    assert (done.returncode, done.stderr) == (3, "Error: stdout could not be written: No space left on device\n")


def _python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=environment, cwd="/"
    )


EARLY = """
import importlib.abc, os, signal, sys

class Interrupted(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
sys.argv = ["lockstep", "strategies"]
from _lockstep.command import main
main()
"""


@pytest.mark.parametrize("name", ["_lockstep.names", "harness.subject.strategies", "click", "harness.cli.strategies"])
def test_ctrl_c_during_the_imports_shows_no_traceback(name: str) -> None:
    """The first Ctrl-C may come at any of them, from the first package on to the module of the command."""
    done = _python(EARLY.format(name=name))
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "interrupted")


TWICE = """
import os, signal, sys
import harness.cli

def command(**_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for _ in range({more}):
            os.kill(os.getpid(), signal.{second})
        sys.stdout.write("tidied")
        sys.stdout.flush()

harness.cli._lockstep.main = command
harness.cli.main()
"""


@pytest.mark.parametrize(
    ("more", "second", "said"), [(1, "SIGINT", "tidied"), (1, "SIGTERM", "tidied"), (2, "SIGINT", "")]
)
def test_ctrl_c_twice_breaks_off_no_tidying(more: int, second: str, said: str) -> None:
    """The exit code is that of the first signal; a third one ends it at once, whatever hangs."""
    done = _python(TWICE.format(more=more, second=second))
    assert (done.returncode, done.stdout) == (130, said), done.stderr
    assert "Traceback" not in done.stderr


def test_an_end_of_file_is_nobody_s_wish_to_leave() -> None:
    """An EOFError from within is a defect, and no interruption."""
    done = _python(
        "import click, harness.cli\n"
        "@click.command()\ndef command(): raise EOFError('a connection')\n"
        "harness.cli._lockstep = command\nimport sys; sys.argv = ['x']\nharness.cli.main()"
    )
    assert done.returncode == 3
    assert "a connection" in done.stderr


@pytest.mark.parametrize("files", [14])
def test_too_few_files_are_said_in_one_sentence(files: int) -> None:
    """Exit code 4: it is the machine that lacks something."""
    done = _shell("", *JOB, setup=f"ulimit -n {files};")
    assert done.returncode == 4, done.stderr
    assert done.stderr.count("\n") == 1
    assert "raise the limit with `ulimit -n`" in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "raise the limit with `ulimit -u`"),
        (RuntimeError("can't start new thread"), "raise the limit with `ulimit -u`"),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), "no space is left on the device"),
        (MemoryError(), "not enough memory"),
        (RuntimeError("a defect"), None),
        (OSError(errno.EBADF, "Bad file descriptor"), None),
    ],
    ids=repr,
)
def test_limits_are_told_from_defects(error: Exception, said: str | None) -> None:
    """A limit of processes does not hold for root, so Python's error is made up; a defect keeps its traceback."""
    found = limit_of(error)
    assert (found is None) == (said is None)
    assert said is None or said in str(found)


@pytest.mark.parametrize("arguments", [JOB, ["verify", "{train}:train", "--exact"]], ids=["run", "verify"])
def test_a_working_directory_that_is_gone_is_said(arguments: list[str], tmp_path: Path) -> None:
    """A usage error."""
    (tmp_path / "train.py").write_text("def train(strategy, record): pass")
    (tmp_path / "gone").mkdir()
    words = [word.format(train=tmp_path / "train.py") for word in arguments]
    done = _shell("", *words, setup=f"cd {tmp_path}/gone; rmdir ../gone;")
    assert done.returncode == 2, done.stderr
    assert "the working directory has been deleted" in done.stderr


def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A usage error that names the variable."""
    (tmp_path / "train.py").write_text("def train(strategy, record): pass")
    monkeypatch.setenv("LOCKSTEP_CACHE", "/proc/cache")
    asked = ["verify", f"{tmp_path / 'train.py'}:train", "--exact", "--interrupt-at", "1"]
    said = usage_error(*asked)
    assert "reference runs cannot be kept in /proc/cache: No such file or directory; LOCKSTEP_CACHE" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("train.txt", "does not end in .py"),
        ("folder.py", "is a directory; a program is given as FILE.py:FUNCTION"),
        ("deep.py", "is not Python"),
        ("nowhere.py", "there is no file"),
    ],
)
def test_what_is_no_program_is_said(name: str, said: str, tmp_path: Path) -> None:
    """Before anything starts."""
    (tmp_path / "train.txt").write_text("def train(strategy, record): pass")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "deep.py").write_text(f"x = {'(' * 5000}{')' * 5000}")
    assert said in usage_error("verify", f"{tmp_path / name}:train")


def test_step_0_strikes_a_program_without_tensorflow() -> None:
    """Before its first step."""
    program = [sys.executable, "-c", "import simulator; simulator.step()"]
    fault = "kind=kill,task=worker:1,step=0,restart=0s"
    result = called("run", "--json", "--worker", "2", "--fault", fault, "--", *program)
    assert json.loads(result.stdout)["faults"][0]["fired"], result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--fault", "kind=kill,task=worker:1,phase=after_save,nth=0"),
        ("--fault", "kind=kill,task=worker:1,time=9s", "--timeout", "5"),
        ("--link", "src=worker:0,dst=worker:1,stall=0s"),
        ("--link", "src=worker:0,dst=worker:1,delay=999999h"),
        ("--seed", "99999999999999999999999"),
        ("--timeout", "1e300"),
        ("--timeout", "nan"),
    ],
    ids=" ".join,
)
def test_what_can_never_strike_is_a_usage_error(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Exit code 2, and the program has not been started."""
    note = tmp_path / "started"
    usage_error("run", "--worker", "2", *arguments, "--", "touch", note)
    assert not note.exists()
