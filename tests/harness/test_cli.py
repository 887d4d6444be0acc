"""The command `lockstep`: exit codes, JSON, usage errors and help."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import click
import pytest
from click.testing import CliRunner, Result

from harness.cli import _lockstep, main

ROOT = Path(__file__).parents[2]
COMMANDS = tuple(_lockstep.list_commands(click.Context(_lockstep)))
TRAIN = """
from tests.harness import _programs

right = _programs.exact()
wrong = _programs.exact("mean_then_sum")
crash = _programs.worker_that("raises")
silent = _programs.silent
"""
# Of the contract, then what a verdict adds to it.
KEYS = {"program", "strategy", "consistent", "first_divergence", "findings", "explanation", "tasks", "seconds"}
MORE_KEYS = {"laws", "tier", "resolution", "diagnostic"}


def _lockstep_command(*arguments: str, code: int) -> subprocess.CompletedProcess[str]:
    """Run the command from its entry point, in this process, whose tasks start at once, and check its exit code."""
    with (
        mock.patch.object(sys, "argv", ["lockstep", *arguments]),
        # click writes bytes to what is below the text.
        contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")) as out,
        contextlib.redirect_stderr(io.TextIOWrapper(io.BytesIO(), "utf-8")) as err,
        pytest.raises(SystemExit) as ended,
    ):
        main()
    written = []
    for stream in (out, err):
        stream.seek(0)
        written.append(stream.read())
    done = subprocess.CompletedProcess(arguments, int(ended.value.code or 0), *written)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def _invoke(*arguments: str) -> Result:
    """Run the command in this process; its exit code is in `return_value`, unless it ended in a usage error."""
    return CliRunner().invoke(_lockstep, list(arguments), standalone_mode=False)


def _usage_error(*arguments: str) -> str:
    result = CliRunner().invoke(_lockstep, list(arguments))
    assert result.exit_code == 2, result.output
    assert "Usage: " in result.output
    return result.output


@pytest.fixture
def train(tmp_path: Path) -> str:
    """A file with a right program, a wrong one, one that crashes and one that reports nothing."""
    (tmp_path / "train.py").write_text(TRAIN)
    return str(tmp_path / "train.py")


def _check_failed_object(found: dict[str, Any]) -> None:
    assert set(found) == KEYS | MORE_KEYS | {"error"}
    assert (found["consistent"], found["first_divergence"], found["seconds"]) == (False, None, None)
    assert found["diagnostic"]["code"] in ("run_failed", "machine_lacks")


def test_exit_0_and_one_object_for_a_consistent_program(train: str) -> None:
    """A single strategy gives one JSON object with the keys of the contract, and nothing else, also with -v.

    One that is named twice is a single one.
    """
    twice = ("--strategy", "mirrored-2", "--strategy", "mirrored-2")
    done = _lockstep_command("verify", f"{train}:right", "--exact", "--json", "-v", *twice, code=0)
    assert (done.stderr, "seconds:" in done.stdout) == ("", False)
    found = json.loads(done.stdout)
    assert set(found) == KEYS | MORE_KEYS | {"course"}
    assert (found["program"], found["strategy"], found["consistent"]) == ("train.py:right", "mirrored-2", True)
    assert (found["first_divergence"], found["findings"], found["explanation"]) == (None, [], None)
    assert found["tasks"]["local:0"]["exit"] == 0
    assert found["tier"] == "exact"


def test_exit_1_and_a_list_for_several_strategies(train: str) -> None:
    """Several strategies give a list in their order; the exit code is the worst one."""
    arguments = ("--strategy", "default", "--strategy", "multi_worker-2", "--exact", "--json")
    first, second = json.loads(_lockstep_command("verify", f"{train}:wrong", *arguments, code=1).stdout)
    assert (first["strategy"], first["consistent"]) == ("default", True)
    assert (second["strategy"], second["consistent"]) == ("multi_worker-2", False)
    assert {"step", "observable", "observed", "expected", "bound"} <= set(second["first_divergence"])
    assert second["first_divergence"]["step"] == 1
    assert "loss_matches_reference" in {finding["law"] for finding in second["findings"]}
    assert all({"law", "text"} <= set(finding) for finding in second["findings"])
    assert second["explanation"]["rule"] == "loss_times_replicas"
    assert set(second["explanation"]) == {"rule", "text", "cure"}
    assert (first["diagnostic"], second["diagnostic"]["code"]) == (None, "loss_times_replicas")


def test_exit_2_for_a_usage_error() -> None:
    """What is wrong stands on stderr, and stdout stays empty, also with --json."""
    done = _lockstep_command("verify", "nowhere.py:train", "--json", code=2)
    assert done.stdout == ""
    assert "there is no file 'nowhere.py'" in done.stderr


def test_exit_3_for_a_run_that_failed(train: str) -> None:
    """A crash is not an inconsistency: the failure and every task's exit are in the object, the traceback on stderr."""
    arguments = ("--strategy", "multi_worker-2", "--exact", "--json")
    done = _lockstep_command("verify", f"{train}:crash", *arguments, code=3)
    found = json.loads(done.stdout)
    _check_failed_object(found)
    assert found["error"].startswith("worker:1 failed first: ArithmeticError: worker 1 miscounted")
    assert found["tasks"]["worker:1"]["exit"] == 1
    assert "Traceback" in done.stderr


def test_exit_4_for_missing_hardware(train: str) -> None:
    """A strategy that this machine cannot run names what is missing."""
    done = _lockstep_command("verify", f"{train}:right", "--strategy", "mirrored-99:nccl", "--json", code=4)
    found = json.loads(done.stdout)
    _check_failed_object(found)
    assert "needs 99 GPUs" in found["error"]
    assert "needs 99 GPUs" in done.stderr


@pytest.mark.full  # a verification of its own for a detail
def test_the_worst_exit_code_wins(train: str) -> None:
    """A strategy that cannot run does not keep the others from being verified, nor does theirs hide it."""
    result = _invoke(
        "verify", f"{train}:right", "--strategy", "mirrored-99:nccl", "--strategy", "default", "--exact", "--json"
    )
    assert result.return_value == 4
    assert [found["consistent"] for found in json.loads(result.stdout)] == [False, True]


def test_without_json_the_diagnostic_is_printed(train: str, tmp_path: Path) -> None:
    """With -v all of the verdict is; and --out keeps one folder for each strategy."""
    result = _invoke("verify", f"{train}:wrong", "--exact", "--out", str(tmp_path / "out"), "--strategy", "mirrored-2")
    assert result.return_value == 1
    assert result.stdout.startswith("error[")
    assert " --> train.py:wrong under mirrored-2\n" in result.stdout
    assert result.stdout.endswith("details: -v\n")
    assert "mirrored-2: following the run with one replica ... (" in result.stderr
    whole = _invoke("report", str(tmp_path / "out"), "-v").stdout
    for part in ("train.py:wrong under mirrored-2: INCONSISTENT", "first divergence: step 1, loss", "explanation:"):
        assert part in whole
        assert part not in result.stdout
    assert "mirrored-2: running ..." in result.stderr
    assert (tmp_path / "out" / "mirrored-2" / "verdict.json").is_file()


def test_with_v_the_seconds_are_those_of_the_phases(train: str) -> None:
    """Which are told on stderr while it works; where none is given the strategy is mirrored-2."""
    result = _invoke("verify", f"{train}:right", "--exact", "-v")
    assert "under mirrored-2" in result.stdout
    (seconds,) = [line for line in result.stdout.splitlines() if line.startswith("  seconds: ")]
    told = [line.partition(" ...")[0].partition(": ")[2] for line in result.stderr.splitlines() if " ..." in line]
    assert told[:2] == ["running", "following the run with one replica"]
    assert all(f"{words} " in seconds for words in told)


@pytest.mark.full  # a verification of its own for a detail
def test_colours_are_for_who_wants_them(train: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal; a pipe gets none."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def shown(*arguments: str) -> str:
        return CliRunner().invoke(_lockstep, arguments, standalone_mode=False, color=True).stdout

    out = str(tmp_path / "out")
    assert "\x1b[" in shown("verify", f"{train}:wrong", "--exact", "--strategy", "mirrored-2", "--out", out)
    assert "\x1b[" in shown("report", out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown("report", out).startswith("error[")
    assert "\x1b[" not in shown("report", out)


@pytest.mark.full  # a verification of its own for a detail
def test_report_judges_every_strategy_of_a_verification(train: str, tmp_path: Path) -> None:
    """DIR of --out is DIR of report, for one strategy and for several; a run that failed is not hidden."""
    out = str(tmp_path / "out")
    wrong = ("verify", f"{train}:wrong", "--exact", "--out", out)
    assert _invoke(*wrong, "--strategy", "mirrored-2").return_value == 1
    single = _invoke("report", out, "--json")
    assert (single.return_value, json.loads(single.stdout)["consistent"]) == (1, False)
    _invoke(*wrong, "--strategy", "default")
    several = _invoke("report", out, "--json")
    assert several.return_value == 1
    assert [found["strategy"] for found in json.loads(several.stdout)] == ["default", "mirrored-2"]
    assert _invoke("verify", f"{train}:crash", "--out", out, "--strategy", "multi_worker-2").return_value == 3
    failed = _invoke("report", out)
    assert failed.return_value == 3
    assert "multi_worker-2 holds a run that could not be judged" in failed.stderr


def test_a_program_that_reports_nothing_is_a_usage_error(train: str) -> None:
    """It is the program that has to be changed, so the exit code is 2."""
    text = _usage_error("verify", f"{train}:silent", "--exact")
    assert "observed nothing" in text


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (("verfy",), "No such command 'verfy'. Did you mean verify?"),
        (("qqq",), f"No such command 'qqq'. Commands are {', '.join(COMMANDS)}."),
        (("verify", "t.py:f", "--stratgy", "default"), "--strategy"),
        (("verify", "t.py:f", "--jso"), "--json"),
        (("verify",), "Missing argument 'FILE.py:FUNCTION'"),
        (("verify", "t.py:f", "--strategy", "miror-2"), "strategy 'miror-2' is unknown; did you mean mirrored-2?"),
        (("verify", "t.py:f", "--hardware", "cuda"), "'cuda' is not one of 'cpu', 'gpu', 'gpu-simulated', 'tpu'"),
        (("verify", "t.py:f", "--timeout", "0"), "0.0 is not in the range x>0"),
        (("verify", "t.py:f", "--restarts", "2"), "give --fault or --plan besides --restarts"),
        (("verify", "t.py:f", "--interrupt-at", "2", "--fault", "kind=kill,task=*,step=2"), "with --interrupt-at, or"),
        (("verify", "t.py:f", "--resume-strategy", "default"), "give that as well"),
        (("verify", "t.py:f", "--strict", "--no-prove"), "leave out --no-prove"),
        (("verify", "t.py"), "names no function; a program is given as FILE.py:FUNCTION"),
        (("strategies", "extra"), "unexpected extra argument"),
        (("doctor", "--jsn"), "--json"),
    ],
)
def test_a_usage_error_says_what_is_accepted(arguments: tuple[str, ...], fragment: str) -> None:
    """A typo in a command or an option suggests the right one; a bad value lists the good ones."""
    assert fragment in " ".join(_usage_error(*arguments).split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str) -> None:
    """Every command's help ends with a command line to copy."""
    for option in ("--help", "-h"):
        result = CliRunner().invoke(_lockstep, [command, option])
        assert result.exit_code == 0, result.output
        assert f"lockstep {command}" in result.output.partition("Example")[2]


def test_the_help_of_the_program_lists_commands_and_exit_codes() -> None:
    """Every command has a line, and so has every exit code."""
    result = CliRunner().invoke(_lockstep, ["--help"])
    assert result.exit_code == 0
    for command in COMMANDS:
        assert f"\n  {command} " in result.output
    for code in range(5):
        assert f"\n    {code}  " in result.output
    assert "lockstep verify train.py:train --strategy mirrored-2" in result.output


def test_strategies_lists_the_catalogue() -> None:
    """A table for people and a list for tools say the same."""
    table = _invoke("strategies").stdout.splitlines()
    rows = json.loads(_invoke("strategies", "--json").stdout)
    assert [line.split()[0] for line in table[1:]] == [row["strategy"] for row in rows]
    by_name = {row["strategy"]: row for row in rows}
    assert by_name["multi_worker-2x2"]["replicas"] == 4
    assert by_name["multi_worker-2x2"]["clients"] == 2
    assert by_name["parameter_server-2w1p"]["synchronous"] is False
    assert by_name["tpu"]["needs"] == "a TPU"


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["strategies"]])
def test_help_loads_neither_tensorflow_nor_rich(arguments: list[str]) -> None:
    """The commands that run nothing are instant."""
    code = (
        "import sys\nfrom harness.cli import main\nsys.argv[1:] = " + repr(arguments) + "\n"
        "try:\n    main()\nfinally:\n"
        "    loaded = {'tensorflow', 'keras', 'numpy', 'rich'} & set(sys.modules)\n"
        "    sys.stderr.write(f'loaded: {sorted(loaded)}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("loaded: []")


def test_a_file_without_a_function_points_to_both_ways(tmp_path: Path) -> None:
    """`lockstep verify train.py` is what a new user types."""
    (tmp_path / "train.py").write_text("pass")
    result = CliRunner().invoke(_lockstep, ["verify", str(tmp_path / "train.py")])
    assert result.exit_code == 2
    assert "train.py:FUNCTION" in result.output
    assert "lockstep verify --devices cpu:2 -- python" in result.output
