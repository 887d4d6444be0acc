"""`lockstep run --machines` and `lockstep doctor --machines`: options, exit codes, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness._called import called, json_of, lockstep, usage_error

TWO = ("--machines", "env MACHINE={}:m0,m1")
LOST = ("--fault", "kind=machine_lost,task=worker:1,step=1")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--machines", "ssh m0"), "--machines 'ssh m0' is not understood; write a command with {}"),
        ((*TWO, "--place", "worker:0"), "--place 'worker:0' is not understood"),
        ((*TWO, "--place", "worker:0=m7"), "there is no machine 'm7'; machines are m0, m1"),
        (("--place", "worker:0=m1"), "place is about machines"),
        ((*TWO, "--network", "namespaces"), "cannot be had with --machines"),
        ((*TWO, "--link", "src=worker,dst=worker:0,hold,after_bytes=1MB", *LOST), "waits for what a link carries"),
        ((*TWO, "--fault", "kind=pause,task=worker:1,step=1,duration=1s"), "kind pause acts on processes or files"),
        ((*TWO, "--devices", "gpu:1"), "GPUs are lent on this machine alone"),
    ],
)
def test_what_cannot_be_had_is_a_usage_error(options: tuple[str, ...], why: str) -> None:
    """Before anything starts, with exit code 2 and one sentence."""
    said = usage_error("run", *options, "--worker", "2", "--", "true")
    assert why in said
    assert "Error: " not in said


def test_a_mistyped_option_of_verify_is_named_before_anything_is_said_to_run() -> None:
    """Also where the first strategy would not have needed it, and for the Python of a reference."""
    program = f"{Path(__file__).parents[2]}/examples/verify_custom_loop.py:train"
    for options, why in (
        (("--machines", "ssh m0"), "--machines 'ssh m0' is not understood"),
        ((*TWO, "--place", "worker:7=m0"), "there is no task 'worker:7'"),
        (("--reference-python", "no/such/python"), "no/such/python"),
    ):
        result = called("verify", program, "--strategy", "one_device", "--strategy", "multi_worker-2", *options)
        assert result.exit_code == 2, result.output
        assert why in " ".join(result.output.split())
        assert "running" not in result.output


def test_a_dry_run_says_which_task_is_where() -> None:
    """By the names of machines: nothing is started to find their addresses."""
    configs = json_of("run", *TWO, "--place", "worker:0=m1", "--worker", "2", "--dry-run", "--", "true")["tf_config"]
    hosts = [address.partition(":")[0] for address in configs["worker:0"]["cluster"]["worker"]]
    assert hosts == ["m1", "m0"]


@pytest.mark.full
def test_a_job_over_machines_ends_and_can_be_replayed(here: Path) -> None:
    """Its directory has logs and journal as of a local run, and where it ran."""
    (here / "prog.sh").write_text("echo $LOCKSTEP_TASK on $MACHINE\n")
    lockstep("run", *TWO, "--worker", "2", "--quiet", "--out", "kept", "--", "sh", "prog.sh")
    logs = [(here / "kept" / "0" / "logs" / f"worker-{number}.log").read_text() for number in range(2)]
    assert logs == ["worker:0 on m0\n", "worker:1 on m1\n"]
    assert json.loads((here / "kept" / "run.json").read_text())["job"]["machines"] == TWO[1]
    assert sorted(path.name for path in here.iterdir()) == ["kept", "prog.sh"]
    lockstep("replay", "--yes", "kept")
    lockstep("replay", "--yes", "kept", "--machines", "env MACHINE={}:m7", "--out", "elsewhere")
    assert (here / "elsewhere" / "0" / "logs" / "worker-1.log").read_text() == "worker:1 on m7\n"
    refused = usage_error("replay", "--yes", "kept", "--place", "worker:0=m7")
    assert "there is no machine 'm7'; machines are m0, m1" in refused


def test_the_doctor_reaches_machines() -> None:
    """It says how each is reached and how well its clock is known; one that is not there is exit code 4."""
    found = json_of("doctor", *TWO)["machines"]
    assert [machine["name"] for machine in found] == ["m0", "m1"]
    assert all(abs(machine["clock_offset_seconds"]) <= machine["clock_error_seconds"] for machine in found)
    gone = called("doctor", "--machines", "sh -c 'exit 9' {}:m0")
    assert gone.exit_code == 4
    assert "machine m0 cannot be used: the command that leads to it ended with exit code 9" in gone.output
