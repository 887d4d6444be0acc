"""`lockstep run --out DIR` that is interrupted or killed: its logs and journal are in DIR, and its report says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner

from _lockstep import temporary
from harness import cli
from harness.cli import _lockstep
from harness.report.timeline import lines, timeline_of
from tests._ended import living
from tests.simulator._wire import eventually

ROOT = Path(__file__).parents[2]
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
PROGRAM = ["sh", "-c", "echo began; sleep 600"]


def _lines_of(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(_lockstep, list(arguments), standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return result.exception.exit_code, result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value or 0, result.output


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run in `tmp_path / "out"` whose program has written a line."""
    command = [*LOCKSTEP, "run", "--worker", "1", "--quiet", "--out", str(tmp_path / "out"), "--", *PROGRAM]
    started = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        log = tmp_path / "out" / "0" / "logs" / "worker-0.log"
        eventually(lambda: log.exists() and log.read_text() == "began\n", "the program to write into the directory")
        yield started
    finally:
        started.kill()
        started.wait(10)


@pytest.mark.parametrize(
    ("number", "ending", "says", "known"),
    [
        (signal.SIGINT, "interrupted", "interrupted, as by Ctrl-C", 0),
        (signal.SIGKILL, "cut off", "its journal has no end", 3),
    ],
)
def test_the_report_says_that_a_run_did_not_come_to_its_end(
    number: signal.Signals, ending: str, says: str, known: int, running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As text, as data and as a page; what the tasks wrote is there, and the next run replaces it.

    How one ended that was killed is not known, and neither is how long it took, which the exit code says as well.
    """
    out, page = tmp_path / "out", tmp_path / "page.html"
    family = psutil.Process(running.pid).children(recursive=True)
    # Nobody takes the directory from a run that still writes there.
    code, said = _lines_of("run", "--worker", "1", "--out", str(out), "--", "true")
    assert code == 2
    assert "is in use by another run of Lockstep" in said
    running.send_signal(number)
    running.wait(20)
    assert living(family) == []
    assert (out / "0" / "logs" / "worker-0.log").read_text() == "began\n"
    code, said = _lines_of("report", str(out))
    assert code == known
    assert ("at least" in said.splitlines()[0]) is bool(known)
    assert said.splitlines()[1].startswith(ending)
    assert says in said
    code, said = _lines_of("report", str(out), "--json")
    assert [run["ending"] for run in json.loads(said)["runs"]] == [ending]
    assert _lines_of("report", str(out), "--html", str(page))[0] == known
    assert says in page.read_text()
    _lines_of("run", "--worker", "1", "--quiet", "--out", str(out), "--", "true")
    assert (out / "0" / "logs" / "worker-0.log").read_text() == ""
    code, said = _lines_of("report", str(out))
    assert "worker:0: from" in said.splitlines()[1]


@pytest.mark.parametrize(
    ("how", "told"), [("finished", None), ("failed", None), ("stopped", "stopped by the program"), (None, "cut off")]
)
def test_only_what_did_not_come_to_its_end_is_said_so(how: str | None, told: str | None) -> None:
    """A journal of an earlier version never had an end, and is not called cut off for that."""
    start = {"t": 1.0, "event": "start", "topology": "1 worker", "tasks": ["worker:0"]}
    end = [] if how is None else [{"t": 2.0, "event": "end", "how": how}]
    second = lines(timeline_of([{**start, "says_end": True}, *end]))[1]
    assert second.startswith(told or "  worker:0")
    assert lines(timeline_of([start]))[1].startswith("  worker:0")


def _json_of(process: subprocess.Popen[bytes]) -> dict[str, object]:
    assert process.stdout is not None
    return json.loads(process.stdout.read())  # type: ignore[no-any-return]


def test_an_interrupted_run_prints_its_json(tmp_path: Path) -> None:
    """With the keys of every outcome: how it would have ended is not known."""
    log = tmp_path / "out" / "0" / "logs" / "worker-0.log"
    command = [*LOCKSTEP, "run", "--worker", "1", "--json", "--quiet", "--out", str(tmp_path / "out"), "--", *PROGRAM]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        eventually(lambda: log.exists() and log.read_text() == "began\n", "the program to begin")
        started.send_signal(signal.SIGINT)
        found = _json_of(started)
    assert started.returncode == 130
    assert (found["ended_well"], found["error"], found["tasks"]) == (None, "interrupted", {})


def _job(tmp_path: Path, program: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    job = [*LOCKSTEP, "run", "--worker", "1", "--quiet", "--out", str(tmp_path / "out"), "--", "sh", "-c", program]
    return subprocess.run(
        ["bash", "-c", f'{setup} "$@"', "bash", *job], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_directory_that_was_removed_meanwhile_does_not_hide_the_outcome(tmp_path: Path) -> None:
    """It is shown, then why it is not kept, in one sentence."""
    done = _job(tmp_path, f"rm -r {tmp_path / 'out'}")
    assert done.returncode == 3
    assert done.stdout.startswith("1 worker: ended well")
    assert "what the run has left cannot be kept in" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("limit", "code", "said"),
    [
        ("-f 0", 4, "no temporary directory"),
        ("-f 1", 3, "File too large"),
        ("-n 12", 4, "this process may open no more files; raise the limit with `ulimit -n`"),
    ],
)
def test_what_a_limit_does_not_let_lockstep_do_is_said_in_one_sentence(
    limit: str, code: int, said: str, tmp_path: Path
) -> None:
    """As with RLIMIT_FSIZE, where the temporary directory or the outcome is too large already; no task is blamed."""
    done = _job(tmp_path, "echo it began", f"ulimit {limit};")
    assert done.returncode == code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


_TRIES = """
import sys, tempfile
place, find = sys.argv[1:3]
del sys.argv[1:3]
tried = []
def hears(event, arguments):
    name = str(arguments[0]) if event == "open" else ""
    if name.startswith(place + "/") and "/lockstep-" not in name:
        tried.append(name)
sys.addaudithook(hears)
from _lockstep import command, temporary
if find == "no":
    temporary.find = lambda: None
try:
    command.main()
finally:
    sys.exit(10 * (tempfile.gettempdir() == place) + len(tried))
"""


@pytest.mark.parametrize(("find", "code"), [("yes", 10), ("no", 11)])
def test_the_command_tries_its_temporary_directory_without_a_file_that_has_a_name(
    find: str, code: int, tmp_path: Path
) -> None:
    """One that is killed meanwhile would leave it (soak, 201030); the control is how Python tries it."""
    command = [sys.executable, "-c", _TRIES, str(tmp_path), find, "run", "--quiet", "--worker", "1", "--", "true"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr


def test_a_directory_that_takes_no_files_is_left_to_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which looks further, or says that there is none."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    temporary.find()
    assert tempfile.tempdir is None


def test_a_run_that_was_refused_leaves_no_directory(tmp_path: Path) -> None:
    """Not one that was made for it; an empty one of the user's stays, and stays empty."""
    (tmp_path / "train.py").write_text("def train(strategy, record): ...\n")
    (tmp_path / "mine").mkdir()
    for name in ("new", "mine"):
        asked = ["verify", f"{tmp_path}/train.py:train", "--strategy", "tpu", "--hardware", "tpu"]
        assert _lines_of(*asked, "--out", str(tmp_path / name))[0] == 4
    assert not (tmp_path / "new").exists()
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize(("signals", "code"), [([signal.SIGTERM], 143), ([], 3)])
def test_a_signal_that_an_import_has_swallowed_is_one(
    signals: list[int], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`multiprocess` takes whatever comes while it is imported for another module; without a signal it is a defect."""

    def fails(**_: object) -> None:
        raise ModuleNotFoundError("No module named 'version'")

    monkeypatch.setattr(_lockstep, "main", fails)
    asked = cli._Asked()
    asked.signals += signals
    assert cli._run(asked) == code
    assert ("Traceback" in capsys.readouterr().err) is (not signals)


def test_the_command_hears_ctrl_c_before_it_imports_anything_that_takes_time() -> None:
    """Else one in the first milliseconds ends in a traceback (soak, 60894)."""
    check = "import sys; sys.path.insert(0, '.'); import _lockstep.command; sys.exit('signal' in sys.modules)"
    assert subprocess.run([sys.executable, "-S", "-c", check], cwd=ROOT, check=False).returncode == 0
