"""`lockstep run`: unmodified programs as clusters, exit codes, output, and the examples of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil
import pytest

from simulator.journal import read_journal
from tests._ended import living
from tests.harness._called import called, json_of, lockstep, usage_error

ROOT = Path(__file__).parents[2]
LOCKSTEP = [sys.executable, "-c", "from harness.cli import main; main()"]
PROGRAMS = ROOT / "examples" / "programs"
Program = Callable[[str], str]
_run = partial(lockstep, "run")
_json = partial(json_of, "run", "--quiet")

STEPS = "import simulator\nfor number in range(1, 5):\n    simulator.step()\n    print('step', number)\n"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Writes a program and returns its path."""

    def write(code: str) -> str:
        (tmp_path / "program.py").write_text(code)
        return str(tmp_path / "program.py")

    return write


def test_a_job_that_ends_well(program: Program) -> None:
    """Exit code 0; output is shown with the task in front; the summary has steps and how they were counted."""
    result = _run("--worker", "2", "--", sys.executable, program(STEPS))
    assert "[worker-1] step 4" in result.stderr
    assert "2 worker: ended well" in result.stdout
    assert "worker:1: exit code 0, 4 steps" in result.stdout
    assert "steps: counted by simulator.step()" in result.stdout


def test_options_after_the_program_are_its_own(program: Program) -> None:
    """With or without `--`, what follows the program belongs to it."""
    path = program("import sys; print(sys.argv[1:])")
    for dashes in (["--"], []):
        result = _run("--worker", "1", *dashes, sys.executable, path, "--worker", "7", "-x")
        assert "['--worker', '7', '-x']" in result.stderr


def test_a_crash_names_the_root_cause_first(program: Program) -> None:
    """Exit code 3; JSON on stdout and text on stderr say who failed first, and why."""
    path = program(
        "import json, os, threading\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 1: raise ValueError('shard 1 is empty')\n"
        "threading.Event().wait()"
    )
    result = _run("--json", "--quiet", "--worker", "3", "--", sys.executable, path, code=3)
    assert result.stderr.startswith("the job failed: worker:1 failed first: Exit: ended with exit code 1: ValueError")
    found = json.loads(result.stdout)
    assert found["root_cause"] == {
        "task": "worker:1",
        "kind": "Exit",
        "message": "ended with exit code 1: ValueError: shard 1 is empty",
    }
    assert not found["ended_well"]
    assert found["tasks"]["worker:0"]["stopped"]


def test_json_has_the_same_keys_whatever_happens(program: Program) -> None:
    """A script need not ask how the job ended before it reads."""
    path = program(STEPS)
    well = _json("--worker", "1", "--", sys.executable, path)
    failed = _json("--worker", "1", "--", "false", code=3)
    assert well.keys() == failed.keys()
    assert well["tasks"]["worker:0"].keys() == failed["tasks"]["worker:0"].keys()
    assert (well["ended_well"], well["root_cause"], well["steps_counted_by"]) == (True, None, ["simulator.step()"])
    assert (failed["steps_counted_by"], failed["command"]) == ([], ["false"])


def test_steps_of_which_nothing_is_known_are_none() -> None:
    """Of a program that is not Python nothing is counted."""
    assert "steps: none was counted" in _run("--worker", "1", "--", "true").stdout


def test_steps_of_another_kind_than_was_asked_for_are_not_denied(program: Program) -> None:
    """What the program did besides is not said."""
    said = _run("--worker", "1", "--steps", "fit", "--", sys.executable, program(STEPS)).stdout
    assert "steps: none seen of the kind that --steps fit counts alone" in said


def test_restarts_are_allowed_or_not(program: Program, tmp_path: Path) -> None:
    """With `--restarts 1` a job that crashes once ends well; without it, it fails; a crash loop ends loudly."""
    once = program("import json, os\nos._exit(0 if json.loads(os.environ['LOCKSTEP_AGENT'])['incarnation'] else 5)")
    found = _json("--worker", "2", "--restarts", "1", "--", sys.executable, once)
    assert [task["incarnation"] for task in found["tasks"].values()] == [1, 1]
    assert 5 in [task["incarnations"][0]["exit"] for task in found["tasks"].values()]
    _json("--worker", "2", "--", sys.executable, once, code=3)
    loop = _json("--worker", "2", "--restarts", "2", "--", "false", code=3)
    assert "had been restarted 2 times" in loop["error"]


def test_restart_policy_task(program: Program) -> None:
    """`--restart-policy task` leaves the peers alone."""
    path = program(
        "import json, os\n"
        "first = json.loads(os.environ['LOCKSTEP_AGENT'])['incarnation'] == 0\n"
        "os._exit(5 if first and json.loads(os.environ['TF_CONFIG'])['task']['index'] else 0)"
    )
    found = _json("--worker", "2", "--restarts", "1", "--restart-policy", "task", "--", sys.executable, path)
    assert [task["incarnation"] for task in found["tasks"].values()] == [0, 1]


def test_a_timeout_fails_the_job() -> None:
    """A job that hangs is stopped and fails with exit code 3."""
    found = _json("--worker", "1", "--timeout", "0.5", "--", "sleep", "60", code=3)
    assert found["root_cause"]["kind"] == "Hang"


def test_out_keeps_everything(program: Program, tmp_path: Path) -> None:
    """Logs, journal, expanded plan and outcome stay."""
    out = tmp_path / "out"
    _json("--worker", "1", "--out", out, "--seed", "7", "--", sys.executable, program(STEPS))
    assert (out / "0" / "logs" / "worker-0.log").read_text().endswith("step 4\n")
    events = [event["event"] for event in read_journal(out / "0" / "journal.jsonl")]
    assert events.count("step") == 4
    assert "seed = 7" in (out / "plan.toml").read_text()
    assert json.loads((out / "run.json").read_text())["ended_well"]


def test_out_holds_one_run(tmp_path: Path) -> None:
    """A later run in the same directory leaves nothing of the earlier one, and nothing else is touched."""
    out = tmp_path / "out"
    _json("--worker", "2", "--out", out, "--", "true")
    (out / "notes.txt").write_text("mine")
    _json("--worker", "1", "--out", out, "--", "true")
    assert [path.name for path in (out / "0" / "logs").iterdir()] == ["worker-0.log"]
    assert (out / "notes.txt").read_text() == "mine"


def test_dry_run_prints_configs_and_the_expanded_plan() -> None:
    """Nothing is started; a chief is added to ps tasks; what the plan leaves open is decided by the seed."""
    fault = "kind=kill,task=worker:?,step=10..20"
    arguments = ["--worker", "2", "--ps", "1", "--fault", fault, "--link", "src=worker,dst=ps,delay=20ms"]
    shown = _json("--dry-run", *arguments, "--seed", "3", "--", "false")
    assert list(shown["tf_config"]) == ["chief:0", "worker:0", "worker:1", "ps:0"]
    assert shown["tf_config"]["ps:0"]["task"] == {"type": "ps", "index": 0}
    assert shown["plan"]["link"][0]["delay"] == "20ms"
    (kill,) = shown["plan"]["fault"]
    assert kill["task"][0] in ("worker:0", "worker:1")
    assert 10 <= kill["step"] <= 20
    assert _json("--dry-run", *arguments, "--seed", "3", "--", "false")["plan"] == shown["plan"]
    text = _run("--dry-run", *arguments, "--seed", "3", "--", "false").stdout
    assert 'worker:1  {"cluster": ' in text
    assert "[[fault]]" in text


def test_a_plan_of_a_file_is_joined_with_that_of_the_command_line(tmp_path: Path) -> None:
    """The file gives tasks and seed unless the command line does."""
    (tmp_path / "plan.toml").write_text(
        'seed = 5\n[topology]\nworker = 2\n[[fault]]\nkind = "kill"\ntask = "worker:1"\nstep = 2\n'
    )
    plan = ["--plan", str(tmp_path / "plan.toml")]
    shown = _json("--dry-run", *plan, "--fault", "kind=kill,task=worker:0,step=9", "--", "true")
    assert list(shown["tf_config"]) == ["worker:0", "worker:1"]
    assert [fault["step"] for fault in shown["plan"]["fault"]] == [2, 9]
    assert shown["plan"]["seed"] == 5
    assert len(_json("--dry-run", *plan, "--worker", "3", "--seed", "6", "--", "true")["tf_config"]) == 3


def test_a_planned_kill_strikes_at_its_step(program: Program) -> None:
    """The task dies right after the step, the restart is allowed, and the job ends well."""
    path = program(STEPS)
    fault = ["--fault", "kind=kill,task=worker:1,step=2"]
    found = _json("--worker", "2", "--restarts", "1", *fault, "--", sys.executable, path)
    assert found["recovery"]["text"].startswith("recovered: "), found["recovery"]
    first = found["tasks"]["worker:1"]["incarnations"][0]
    assert (first["signal"], first["steps"]) == ("SIGKILL", 2)
    assert found["tasks"]["worker:1"]["steps"] == 4
    (told,) = found["faults"]
    assert told == {
        "name": "kill-1",
        "kind": "kill",
        "where": "worker:1",
        "trigger": "step=2 of worker:1",
        "fired": True,
        "ended": [],
    }


def test_a_trigger_that_never_came_names_the_count_that_was_reached(program: Program) -> None:
    """So that a user sees whether steps are counted as expected; the fault is in the outcome of the job that failed."""
    fault = ["--fault", "kind=kill,task=worker:0,step=9"]
    found = _json("--worker", "1", *fault, "--", sys.executable, program(STEPS), code=3)
    assert [told["fired"] for told in found["faults"]] == [False]
    assert "its trigger never came: worker:0 came to 4, counted by simulator.step()" in found["error"]


def test_a_planned_kill_without_a_restart(program: Program) -> None:
    """A job ends well if the survivors do, and does not if nobody is left to finish it."""
    command = ["--", sys.executable, program(STEPS)]
    found = _json("--worker", "2", "--fault", "kind=kill,task=worker:1,step=2", *command)
    assert {name: task["stopped"] for name, task in found["tasks"].items()} == {"worker:0": False, "worker:1": True}
    found = _json("--worker", "2", "--fault", "kind=kill,task=worker:*,step=2", *command, code=3)
    assert found["root_cause"]["kind"] == "NotFinished"


def test_a_fault_whose_step_never_comes_fails_the_job() -> None:
    """Steps of a program that is not Python are not known: the fault cannot strike, and that is loud."""
    found = _json("--worker", "1", "--fault", "kind=kill,task=worker:0,step=2", "--", "true", code=3)
    assert "did not fire: its trigger never came: no step was counted" in found["error"]


def test_devices_alone_are_one_process_without_a_config(program: Program) -> None:
    """What MirroredStrategy wants: no TF_CONFIG; a fault names the task `local:0`, and the run can be replayed."""
    path = program("import os; print('TF_CONFIG' in os.environ)\n" + STEPS)
    result = _run("--devices", "cpu:1", "--", sys.executable, path)
    assert "[local-0] False" in result.stderr
    assert result.stdout.startswith("one local process: ended well")
    found = _json("--devices", "cpu:1", "--fault", "kind=kill,task=local:0,step=2", "--", sys.executable, path, code=3)
    assert found["tasks"]["local:0"]["steps"] == 2


def test_a_planned_kill_that_nobody_answers_comes_first(program: Program) -> None:
    """Before the failure of the peer that followed from it, with the way to allow restarts."""
    path = program(
        "import json, os, simulator, threading\n"
        "simulator.step()\n"
        "if json.loads(os.environ['TF_CONFIG'])['task']['index'] == 0: raise OSError('the peer has gone')\n"
        "threading.Event().wait()"
    )
    fault = ["--fault", "kind=kill,task=worker:1,step=1,of=worker:*"]
    result = _run("--worker", "2", *fault, "--", sys.executable, path, code=3)
    first = result.stderr[result.stderr.index("the job failed: ") :].splitlines()
    assert first[0].startswith("the job failed: fault kill-1 (kill at step=1 of worker:0, worker:1) ended worker:1")
    assert "--restarts N" in first[0]
    assert first[1].startswith("worker:0 failed first: Exit")
    assert "worker:1: ended by fault kill-1" in result.stdout


def test_the_end_of_a_log_is_shown_once(program: Program) -> None:
    """It was shown while it was written; with --quiet it comes with the failure, without TensorFlow's start."""
    line = "2026-01-31 12:00:00.000000: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on."
    path = program(f"print({line!r})\nprint('before')\nraise ValueError('no data')")
    shown = _run("--worker", "1", "--", sys.executable, path, code=3).stderr
    assert (shown.count("before"), shown.count("oneDNN")) == (1, 0)
    assert "end of the log" not in shown
    quiet = _run("--worker", "1", "--quiet", "--", sys.executable, path, code=3).stderr
    assert (quiet.count("before"), quiet.count("oneDNN")) == (1, 0)
    assert "oneDNN" in _run("--worker", "1", "--tf-log", "--", sys.executable, path, code=3).stderr


def test_the_start_of_tensorflow_is_in_the_log_file(program: Program, tmp_path: Path) -> None:
    """Hidden lines are hidden on the terminal only."""
    line = "I0000 00:00:1795359898.303768    1170 cudart_stub.cc:31] Could not find cuda drivers on your machine."
    _json("--worker", "1", "--out", tmp_path / "out", "--", sys.executable, program(f"print({line!r})"))
    assert line in (tmp_path / "out" / "0" / "logs" / "worker-0.log").read_text()


def test_quiet_is_quiet(program: Program) -> None:
    """Nothing is said while the job runs, not even of a fault; without it, each fault has a line at once."""
    arguments = ["--worker", "1", "--restarts", "1", "--fault", "kind=kill,task=worker:0,step=2"]
    command = ["--", sys.executable, program(STEPS)]
    quiet = _run("--quiet", *arguments, *command)
    assert quiet.stderr == ""
    assert "fault kill-1: kill struck worker:0 at step=2" in quiet.stdout.splitlines()
    said = _run(*arguments, *command).stderr
    assert "lockstep: fault kill-1 (kill) struck worker:0 at step=2, after " in said


def test_conditions_of_links_are_in_the_outcome(program: Program) -> None:
    """As they were asked for, also where nothing came by, which fails the job."""
    link = "src=worker:0,dst=worker:1,delay=1ms"
    arguments = ["--worker", "2", "--link", link, "--", sys.executable, program(STEPS)]
    assert f"link: {link}" in _run(*arguments, code=3).stdout
    assert _json(*arguments, code=3)["conditions"] == [link]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--worker", "2"], "there is no command; write it after --"),
        (["--worker", "2", "--", "no-such-program"], "'no-such-program' is not a program"),
        (["--", "true"], "give --worker N"),
        (["--worker", "0", "--", "true"], "give --worker N"),
        (["--ps", "1", "--", "true"], "ps tasks need at least one worker"),
        (["--worker", "2", "--devices", "tpu", "--", "true"], "cpu:N or gpu:N"),
        (["--worker", "2", "--fault", "kind=melt,task=worker:1,step=1", "--", "true"], "kill"),
        (["--worker", "2", "--fault", "kind=kill,task=worker:5,step=1", "--", "true"], "worker:0, worker:1"),
        (["--worker", "2", "--link", "src=worker,dst=worker,dalay=1s", "--", "true"], "delay"),
        (["--worker", "2", "--restart-policy", "task", "--", "true"], "restarts=N"),
        (["--worker", "2", "--plan", "no-such-file.toml", "--", "true"], "does not exist"),
        (["--worker", "2", "--out", "/proc/out", "--", "true"], "--out /proc/out cannot be made"),
        (["--worker", "2", "--link", "foo", "--", "true"], "for example src=worker,dst=ps,delay=20ms"),
    ],
)
def test_usage_errors_are_clear_and_come_first(arguments: list[str], text: str) -> None:
    """Exit code 2, one line of error that names what is accepted."""
    said = usage_error("run", *arguments)
    assert text in said
    assert "Error: " not in said


def _children(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if child.is_running()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything(number: signal.Signals, program: Program, tmp_path: Path) -> None:
    """Exit code 130 soon after SIGINT, likewise after SIGTERM and SIGHUP; no task is left, and the journal is kept."""
    path = program(f"import os, signal\nopen({str(tmp_path)!r} + f'/{{os.getpid()}}.pid', 'w')\nsignal.pause()")
    started = subprocess.Popen(
        [*LOCKSTEP, "run", "--worker", "2", "--out", str(tmp_path / "out"), "--", sys.executable, path],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    pause = threading.Event()
    try:
        for _ in range(3000):
            if len(list(tmp_path.glob("*.pid"))) == 2:
                break
            pause.wait(0.01)
        family = _children(psutil.Process(started.pid))
        assert len(family) >= 3
        started.send_signal(number)
        _, said = started.communicate(timeout=20)
    finally:
        started.kill()
    assert started.returncode == 128 + number
    assert "interrupted" in said
    assert "Traceback" not in said
    assert living(family) == []
    assert any(event["event"] == "exit" for event in read_journal(tmp_path / "out" / "0" / "journal.jsonl"))


def test_two_runs_at_the_same_time_do_not_meet(program: Program) -> None:
    """Each has ports of its own."""
    path = program("import json, os; print(json.loads(os.environ['TF_CONFIG'])['cluster']['worker'])\n" + STEPS)
    command = [*LOCKSTEP, "run", "--worker", "2", "--", sys.executable, path]
    both = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ports = [{line for line in each.communicate(timeout=30)[1].splitlines() if "127.0.0.1" in line} for each in both]
    assert [each.returncode for each in both] == [0, 0]
    assert len(ports[0]) == len(ports[1]) == 2
    assert not ports[0] & ports[1]


def test_help_has_examples() -> None:
    """`lockstep run --help` shows how to start each kind of job, and the exit codes."""
    text = called("run", "--help").output
    for shown in ("lockstep run --worker 2 --ps 1 -- python train.py", "--restarts 1 --fault kind=kill", "130"):
        assert shown in text


@pytest.mark.full  # in the quick profile scenarios/test_programs_under_faults.py runs such a program
def test_an_unmodified_program_runs(tmp_path: Path) -> None:
    """A TensorFlow program with a parameter server runs as a cluster, and its steps are counted without a change to it.

    The other examples run in the test below (`fit`) and in that of a replay (a loop).
    """
    command = [sys.executable, str(PROGRAMS / "train_parameter_server.py"), "6"]
    found = _json("--worker", "1", "--ps", "1", "--timeout", "100", "--out", tmp_path, "--", *command)
    assert found["steps_counted_by"] == ["functions executed by ClusterCoordinator"]
    clients = [name for name, task in found["tasks"].items() if not task["stopped"]]
    assert [found["tasks"][name]["steps"] for name in clients] == [6] * len(clients)
    logs = "".join(path.read_text() for path in sorted((tmp_path / "0" / "logs").iterdir()))
    assert "6 steps, 6 updates" in logs


def test_every_program_of_the_examples_is_run() -> None:
    """No file in examples/programs is left out of the tests."""
    assert {path.name for path in PROGRAMS.glob("*.py")} == {
        "train_fit.py",
        "train_loop.py",
        "train_parameter_server.py",
    }


# In the quick profile a program that counts its own steps is killed above, and scenarios/test_checkpoint_formats.py
# resumes from BackupAndRestore.
@pytest.mark.full
def test_training_that_is_killed_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    """The worker dies in the second of three epochs; the job starts again and trains only the last two."""
    found = _json(
        *("--worker", "1", "--restarts", "1", "--timeout", "100", "--out", str(tmp_path / "out")),
        *("--fault", "kind=kill,task=worker:0,step=6", "--"),
        *(sys.executable, str(PROGRAMS / "train_fit.py"), "--epochs", "3", "--backup", str(tmp_path / "backup")),
    )
    assert found["steps_counted_by"] == ["Keras fit"]
    task = found["tasks"]["worker:0"]
    assert (task["incarnation"], task["steps"], task["incarnations"][0]["steps"]) == (1, 8, 6)
    assert "worker 0: 2 epochs, loss " in (tmp_path / "out" / "0" / "logs" / "worker-0.log").read_text()
