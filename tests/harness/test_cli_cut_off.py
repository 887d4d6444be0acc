"""`lockstep run --out DIR` that is interrupted or killed: its logs and journal are in DIR, and its report says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from harness.cli import _lockstep
from harness.report.timeline import lines, timeline_of
from tests._ended import living
from tests.simulator._wire import eventually

ROOT = Path(__file__).parents[2]
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
PROGRAM = ["sh", "-c", "echo began; sleep 600"]


def _lines_of(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(_lockstep, list(arguments))
    return result.exit_code, result.output


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
    ("number", "ending", "says"),
    [
        (signal.SIGINT, "interrupted", "interrupted, as by Ctrl-C"),
        (signal.SIGKILL, "cut off", "its journal has no end"),
    ],
)
def test_the_report_says_that_a_run_did_not_come_to_its_end(
    number: signal.Signals, ending: str, says: str, running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As text, as data and as a page; what the tasks wrote is there, and the next run replaces it."""
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
    assert code == 0
    assert said.splitlines()[1].startswith(ending)
    assert says in said
    code, said = _lines_of("report", str(out), "--json")
    assert [run["ending"] for run in json.loads(said)["runs"]] == [ending]
    assert _lines_of("report", str(out), "--html", str(page))[0] == 0
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
