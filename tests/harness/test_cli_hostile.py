"""The commands where the world is not as it should be: no output, signals at bad moments, small limits, odd places."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
SECONDS_MAX = 120
JOB = ["run", "--worker", "1", "--", sys.executable, "-c", "print('here')"]
FAILING = ["run", "--worker", "1", "--", sys.executable, "-c", "raise SystemExit(7)"]


def _shell(redirection: str, *arguments: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command in a shell, with these redirections; `$?` of a pipe is the command's."""
    code = f'set -o pipefail; {setup} "$@" {redirection}'
    command = ["bash", "-c", code, "bash", *LOCKSTEP, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


@pytest.mark.parametrize("redirection", ["| head -1", "| true", ">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full"])
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
@pytest.mark.parametrize("redirection", ["2>&1 | true", ">&- 2>&- <&-"])
def test_a_job_whose_output_nobody_reads_runs_as_ever(redirection: str, job: list[str], code: int) -> None:
    """Its tasks get descriptors of their own, and its live lines go nowhere."""
    done = _shell(redirection, *job)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("arguments", [["strategies"], ["--help"], ["run", "--help"]])
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
from _lockstep_entry import main
main()
"""


@pytest.mark.parametrize("name", ["harness", "simulator.cluster", "click", "harness.cli.strategies"])
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
