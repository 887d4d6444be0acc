"""What `lockstep run` says while a job runs: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli import _progress
from simulator.errors import TaskError
from simulator.results import PlannedFault

ROOT = Path(__file__).parents[2]
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
SECONDS_MAX = 40.0
# Waits in each step until a file is there, so that a test decides how long the job takes.
PROGRAM = """
import pathlib, simulator, sys, threading
for number in range(1, 4):
    print("doing", number)
    simulator.step()
while not pathlib.Path(sys.argv[1]).exists():
    threading.Event().wait(0.02)
"""
ESCAPE = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")


class _Terminal:
    """A job whose stderr, and stdout unless it is a file, is a terminal of its own."""

    def __init__(self, tmp_path: Path, *options: str, term: str = "xterm", stdout: Any = None) -> None:
        self.end = tmp_path / "end"
        (tmp_path / "program.py").write_text(PROGRAM)
        self._own, theirs = pty.openpty()
        self.settings = termios.tcgetattr(theirs)
        program = [sys.executable, str(tmp_path / "program.py"), str(self.end)]
        environ = {**os.environ, "TERM": term, "COLUMNS": "200"}
        environ = {name: value for name, value in environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
        self.process = subprocess.Popen(
            [*LOCKSTEP, "run", *options, "--", *program],
            cwd=ROOT,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
        )
        self._theirs = theirs
        self.text = ""

    def until(self, met: Callable[[str], bool], what: str) -> None:
        """Read until the text so far is as asked for."""
        deadline = time.monotonic() + SECONDS_MAX
        while not met(self.text):
            assert time.monotonic() < deadline, f"gave up waiting for {what}: {self.text!r}"
            if select.select([self._own], [], [], 0.1)[0]:
                self.text += os.read(self._own, 1 << 16).decode()

    def finish(self) -> int:
        """Wait for the end, read the rest, and check that the terminal is as it was."""
        code = self.process.wait(SECONDS_MAX)
        while select.select([self._own], [], [], 0)[0]:
            self.text += os.read(self._own, 1 << 16).decode()
        assert termios.tcgetattr(self._theirs) == self.settings
        os.close(self._own)
        os.close(self._theirs)
        return code

    @property
    def is_clean(self) -> bool:
        """Whether the cursor is shown, and the live line has been erased before what came last."""
        shown, hidden = self.text.rfind("\x1b[?25h"), self.text.rfind("\x1b[?25l")
        return shown > hidden >= 0 and "\x1b[2K" in self.text[shown:]

    @property
    def rest(self) -> str:
        """What was written after the live line had gone, without escapes."""
        return ESCAPE.sub("", self.text[self.text.rfind("\x1b[2K") :])


def test_a_live_line_on_a_terminal(tmp_path: Path) -> None:
    """It has the time, each task with its step, and the faults that fired; output stands above; it leaves nothing."""
    fault = "kind=kill,task=worker:1,step=2,restart=10ms"
    job = _Terminal(tmp_path, "--worker", "2", "--fault", fault)
    wanted = re.compile(r"\d s  worker:0 step 3  worker:1#1 step 3  faults 1 of 1 \(kill-1\)")
    job.until(lambda text: bool(wanted.search(ESCAPE.sub("", text))), "both tasks and the fault")
    assert "faults 0 of 1" in job.text
    job.end.touch()
    assert job.finish() == 0
    assert job.is_clean
    assert job.text.count("[worker-0] doing 1\r\n") == 1
    assert job.rest.lstrip("\r").startswith("2 worker: ended well in")
    assert "faults" not in job.rest


def test_an_interrupt_leaves_the_terminal_clean(tmp_path: Path) -> None:
    """After Ctrl-C the line has gone, the cursor is back, and the exit code is 130."""
    job = _Terminal(tmp_path, "--worker", "2")
    job.until(lambda text: ESCAPE.sub("", text).count("worker:1 step 3") > 1, "the third step")
    job.process.send_signal(signal.SIGINT)
    assert job.finish() == 130
    assert job.is_clean
    assert "step" not in job.rest


def test_the_outcome_may_go_elsewhere(tmp_path: Path) -> None:
    """With stdout in a file the line is on the terminal, and the file has nothing of it."""
    with (tmp_path / "stdout").open("wb") as file:
        job = _Terminal(tmp_path, "--worker", "1", "--json", stdout=file)
        job.until(lambda text: "step 3" in ESCAPE.sub("", text), "the third step")
        job.end.touch()
        assert job.finish() == 0
    assert (tmp_path / "stdout").read_text().startswith("{")
    assert "\x1b" not in (tmp_path / "stdout").read_text()


def test_a_terminal_that_can_do_nothing_gets_plain_lines(tmp_path: Path) -> None:
    """No escapes where TERM is `dumb`."""
    job = _Terminal(tmp_path, "--worker", "1", term="dumb")
    job.until(lambda text: "[worker-0] doing 3" in text, "the third step")
    job.end.touch()
    assert job.finish() == 0
    assert "\x1b" not in job.text


def _task(**fields: Any) -> Any:
    """A task as it is before it has done anything, but for these."""
    nothing: dict[str, Any] = {
        "steps": 0,
        "counted_by": None,
        "incarnation": 0,
        "is_up": False,
        "connection": None,
        "saving": {},
        "at_gate": None,
        "result": None,
        "error": None,
        "ended": False,
        "exit": None,
        "stopped": False,
        "comes_back": False,
    }
    return SimpleNamespace(**{**nothing, **fields})


def test_plain_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every few seconds the step of each task, or what it does, if that has changed; nothing that moves a cursor.

    And a line for each fault that strikes, and for what stays as it is.
    """
    monkeypatch.setattr(_progress, "_PLAIN_SECONDS", 0.01)
    monkeypatch.setattr(_progress, "_SAME_SECONDS", 3600.0)
    task = _task(steps=1, counted_by="Keras fit", is_up=True)
    journal = tmp_path / "journal.jsonl"
    journal.write_text("")
    plan = SimpleNamespace(faults=[SimpleNamespace(id="f1", brings_back=False)])
    run: Any = SimpleNamespace(
        tasks={"worker:0": task, "ps:0": _task(is_up=True)},
        journal=SimpleNamespace(path=journal),
        began=2.0,
        companion=SimpleNamespace(plan=plan),
        options=SimpleNamespace(restarts=SimpleNamespace(limit=0)),
    )
    # Written in one thread and read in another, which what pytest captures with cannot.
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with _progress.Progress() as progress:
        progress.follow(run)
        for steps in (1, 2):
            task.steps = steps
            deadline = time.monotonic() + SECONDS_MAX
            while f"worker:0 {steps}, ps:0 runs\n" not in told.getvalue():
                assert time.monotonic() < deadline, f"gave up waiting for step {steps}: {told.getvalue()!r}"
        fired = {"event": "fired", "fault": "f1", "kind": "kill", "trigger": "step 2", "tasks": ["worker:0"], "t": 3.5}
        fired["effect"] = {"ended": {"worker:0": "SIGKILL"}}
        journal.write_text(json.dumps(fired, separators=(",", ":")) + "\n")
        deadline = time.monotonic() + SECONDS_MAX
        while "struck" not in told.getvalue():
            assert time.monotonic() < deadline, f"gave up waiting for the fault: {told.getvalue()!r}"
    before, fault = told.getvalue().split("lockstep: fault")
    assert before == "lockstep: steps: worker:0 1, ps:0 runs\nlockstep: steps: worker:0 2, ps:0 runs\n"
    advice = "nothing starts it again (restart=1s in the fault, or --restarts N, would)"
    assert fault == f" f1 (kill) struck worker:0 at step 2, after 1.5 s; {advice}\n"


def test_a_job_that_does_nothing_new_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Again and again, though less and less often."""
    monkeypatch.setattr(_progress, "_PLAIN_SECONDS", 0.01)
    monkeypatch.setattr(_progress, "_SAME_SECONDS", 0.02)
    journal = tmp_path / "journal.jsonl"
    journal.write_text("")
    tasks = {"worker:0": _task(is_up=True), "worker:1": _task(ended=True, exit=-9)}
    run: Any = SimpleNamespace(tasks=tasks, journal=SimpleNamespace(path=journal), began=2.0, companion=None)
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)
    with _progress.Progress() as progress:
        progress.follow(run)
        deadline = time.monotonic() + SECONDS_MAX
        while told.getvalue().count("\n") < 3:
            assert time.monotonic() < deadline, f"gave up waiting for two reminders: {told.getvalue()!r}"
    first, *others = told.getvalue().splitlines()
    assert first == "lockstep: steps: worker:0 runs, worker:1 died"
    assert {each.split(": ", 2)[2] for each in others} == {"worker:0 runs, worker:1 died"}


@pytest.mark.parametrize(("brings_back", "restarts"), [(True, 0), (False, 1)])
def test_nothing_is_advised_where_it_is_started_again(brings_back: bool, restarts: int) -> None:
    """By the fault, or by the policy of the job."""
    plan = SimpleNamespace(faults=[SimpleNamespace(id="f1", brings_back=brings_back)])
    limit = SimpleNamespace(restarts=SimpleNamespace(limit=restarts))
    run: Any = SimpleNamespace(companion=SimpleNamespace(plan=plan), options=limit)
    event = {"fault": "f1", "effect": {"ended": {"worker:0": "SIGKILL"}}}
    assert not _progress._ends_for_good(event, run)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "starts"),
        ({"is_up": True}, "runs"),
        ({"is_up": True, "steps": 7}, "step 7"),
        ({"steps": 7, "saving": {1: SimpleNamespace(begun=SimpleNamespace(restores=False))}}, "step 7 saving"),
        ({"saving": {1: SimpleNamespace(begun=SimpleNamespace(restores=True))}}, "restoring"),
        ({"steps": 7, "at_gate": "step:7"}, "held at step:7"),
        ({"steps": 7, "ended": True, "exit": 0}, "ended"),
        ({"steps": 7, "ended": True, "exit": -9, "comes_back": True}, "comes back"),
        ({"steps": 7, "ended": True, "exit": 1}, "died"),
        ({"steps": 7, "result": b"x"}, "returned step 7"),
        ({"error": TaskError("worker:0", "Exit", "code 1", at=0.0), "ended": True, "exit": 1}, "failed (Exit)"),
    ],
)
def test_states(fields: dict[str, Any], state: str) -> None:
    """Each task is in one state, in a word or two."""
    task = _task(**fields)
    assert _progress.line(61.2, {"worker:0": task}, [], 0).plain == f"61 s  worker:0 {state}"
    assert _progress.line(61.2, {}, ["a", "b"], 3).plain == "61 s  faults 2 of 3 (a, b)"


def test_names_of_what_a_fault_struck_stand_once() -> None:
    """Those of the trigger are left out where they are the same, of one task as of all; others stay."""
    for tasks, of, said in (
        (["worker:0", "worker:1"], "worker:0, worker:1", "struck worker:0, worker:1 at step=2, after 1.0 s"),
        (["worker:1"], "worker:0", "struck worker:1 at step=2 of worker:0, after 1.0 s"),
    ):
        trigger = f"step=2 of {of}"
        event = {"fault": "kill-1", "kind": "kill", "tasks": tasks, "trigger": trigger, "t": 3.0}
        assert _progress._struck(event, 2.0) == f"fault kill-1 (kill) {said}"
        planned = PlannedFault("kill-1", "kill", ", ".join(tasks), trigger, fired=True)
        assert f"struck {planned.where} at {planned.when}" in said
