"""Tasks on machines behind a command; here both are this one, each with a site of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import psutil
import pytest

from simulator import Cluster, FaultPlan, RunFailed, Topology, UsageError
from simulator.faults import Kill
from simulator.journal import read_journal
from simulator.machines.engines.command import Commands
from simulator.machines.far.checks import MachinesUnavailable
from tests._ended import has_ended
from tests.simulator._faults import own_agent
from tests.simulator._wire import eventually

TWO = "env MACHINE={}:m0,m1"
# Which joins its words with blanks and gives them to a shell there.
LIKE_SSH = """sh -c 'MACHINE=$0 exec sh -c "$*"' {}:m0"""


def _where() -> dict[str, Any]:
    agent = own_agent()
    sys.stdout.write(f"from {os.environ['MACHINE']}\n")
    folder = Path(agent.spec.left, "notes")
    folder.mkdir(exist_ok=True)
    (folder / f"{agent.spec.rank}-{os.environ['MACHINE']}").write_text(os.environ["MACHINE"])
    return {
        "machine": os.environ["MACHINE"],
        "rank": agent.spec.rank,
        "incarnation": agent.spec.incarnation,
        "given": os.environ["GIVEN"],
        "config": os.environ["TF_CONFIG"],
    }


def _fails_once() -> dict[str, Any]:
    where = _where()
    if where["machine"] == "m1" and not where["incarnation"]:
        raise ValueError("the first time")
    return where


def test_tasks_run_where_they_are_placed() -> None:
    """With the machine's own environment around what was given; what they write and leave comes back; a failure there
    starts all again.
    """
    options: dict[str, Any] = {"preload": (), "timeout": 60, "env": {"GIVEN": "yes"}, "restarts": 1}
    with Cluster(Topology(worker=3), machines=TWO, place={"worker:0": "m1"}, **options) as cluster:
        first, again = cluster.run(_where), cluster.run(_fails_once)
        left = {path.name: path.read_text() for path in (first.directory / "left" / "notes").iterdir()}
    found = {name: task.value for name, task in first.items()}
    assert {name: (value["machine"], value["rank"]) for name, value in found.items()} == {
        "worker:0": ("m1", 0),
        "worker:1": ("m0", 0),
        "worker:2": ("m1", 1),
    }
    assert {value["given"] for value in found.values()} == {"yes"}
    assert len({value["config"].partition('"task"')[0] for value in found.values()}) == 1
    assert first["worker:1"].log == "from m0\n"
    assert left == {"0-m0": "m0", "0-m1": "m1", "1-m1": "m1"}
    assert [task.value["incarnation"] for task in again.values()] == [1, 1, 1]
    assert "the first time" in again["worker:2"].log


def _steps() -> int:
    from simulator import step

    for _ in range(3):
        step()
    return os.getpid()


def test_a_planned_death_on_a_machine_happens_and_is_proved(tmp_path: Path) -> None:
    """At the step that was asked for, by signal, and with its own restart."""
    plan = FaultPlan(faults=(Kill(task="worker:1", step=2, restart="0s"),))
    with Cluster(
        Topology(worker=2), preload=(), timeout=60, machines=TWO, faults=plan, out=tmp_path / "out"
    ) as cluster:
        result = cluster.run(_steps)
    assert [each.exit for each in result["worker:1"].incarnations] == [-9, 0]
    assert [each.steps for each in result["worker:1"].incarnations] == [2, 3]
    events = list(read_journal(tmp_path / "out" / "0" / "journal.jsonl"))
    assert {event["event"] for event in events} >= {"hello", "step", "exit", "restart", "result"}


def _waits(directory: str) -> None:
    import threading

    Path(directory, os.environ["LOCKSTEP_TASK"]).write_text(str(os.getpid()))
    threading.Event().wait()


def _is_site(process: psutil.Process) -> bool:
    try:
        return "_lockstep.site" in process.cmdline()
    except psutil.Error:  # it has ended meanwhile
        return False


def _sites() -> list[psutil.Process]:
    return [process for process in psutil.Process().children(recursive=True) if _is_site(process)]


def _pids(directory: Path) -> list[int]:
    return [int(path.read_text()) for path in directory.glob("worker:*") if path.read_text()]


def test_a_site_that_is_killed_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """Its tasks die with it, by its warden; the other's are ended by the run, which fails."""
    with Cluster(Topology(worker=2), preload=(), timeout=60, machines=TWO) as cluster:
        with cluster.start(_waits, str(tmp_path)) as run:
            eventually(lambda: len(_pids(tmp_path)) == 2, "the tasks")
            next(process for process in _sites() if process.environ()["MACHINE"] == "m1").kill()
            with pytest.raises(RunFailed) as caught:
                run.join()
        cause = caught.value.root_cause
        assert (cause.task, cause.kind) == ("worker:1", "MachineLost")
        assert "machine m1, on which it ran, is lost: the command that leads to it ended" in cause.message
        eventually(lambda: all(map(has_ended, _pids(tmp_path))), "the tasks to be gone")


def test_nothing_outlives_a_killed_driver(tmp_path: Path, short_temporary: Path) -> None:
    """The site's stream ends, and it ends its tasks and removes its directory."""
    script = textwrap.dedent(f"""
        from simulator import Cluster, Topology
        from tests.simulator.test_machines import _waits
        with Cluster(Topology(worker=2), preload=(), machines={TWO!r}) as cluster:
            cluster.run(_waits, {str(tmp_path)!r})
    """)
    with subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(short_temporary)}) as driver:
        try:
            eventually(lambda: len(_pids(tmp_path)) == 2, "the tasks")
            assert len(list(short_temporary.glob("lockstep-machine-*"))) == 2
        finally:
            driver.kill()
    eventually(lambda: all(map(has_ended, _pids(tmp_path))), "the tasks to be gone")
    eventually(lambda: not list(short_temporary.glob("lockstep-*")), "the directories to be gone")


def test_files_that_are_sent_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program runs in a folder of its own on the machine, which is gone afterwards; a shell there is no matter."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words").write_text("sent")
    (tmp_path / "prog.sh").write_text("cat data/words; pwd\n")
    monkeypatch.chdir(tmp_path)
    with Cluster(Topology(worker=1), preload=(), timeout=60, machines=LIKE_SSH, files="ship") as cluster:
        result = cluster.run_command(["sh", "prog.sh"])
    words, where = result["worker:0"].log.splitlines()[0], result["worker:0"].log.splitlines()[-1]
    assert words.startswith("sent")
    assert "lockstep-machine-" in where
    assert not Path(where).exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ssh m0", "is not understood"),
        ("ssh:m0,m1", "is not understood"),
        ("env {}:m0,m0", "twice"),
        ("env {}:m0,,m1", "'' is no name"),
        ("env {}:-oProxyCommand=x", "is no name"),
        ("no-such-command {}:m0", "is not a program"),
        ("env '{}:m0", "is no command"),
    ],
)
def test_what_is_no_command_with_names_is_refused(text: str, why: str) -> None:
    """Before anything starts; names are no options of the command."""
    with pytest.raises(UsageError, match=why):
        Commands.parse(text)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"network": "namespaces"}, "cannot be had with --machines"),
        ({"place": {"worker:0": "m7"}}, "no machine 'm7'"),
        ({"files": "copied"}, "accepted are shared, ship"),
    ],
)
def test_what_machines_cannot_do_is_refused(options: dict[str, Any], why: str) -> None:
    """And not replaced by something else."""
    with pytest.raises(UsageError, match=why):
        Cluster(Topology(worker=2), machines=TWO, **options)


def test_faults_of_this_machines_processes_and_gpus_are_refused() -> None:
    """Those kinds that need only the agent and signals are not."""
    plan = FaultPlan.from_mapping({"fault": [{"kind": "pause", "task": "worker:1", "step": 1, "duration": "1s"}]})
    with pytest.raises(UsageError, match="a fault of kind pause acts on processes or files of this machine"):
        Cluster(Topology(worker=2), machines=TWO, faults=plan)
    with pytest.raises(UsageError, match="GPUs are lent on this machine alone"):
        Cluster(Topology(worker=2, devices="gpu:1"), machines=TWO)
    with pytest.raises(UsageError, match="place is about machines"):
        Cluster(Topology(worker=2), place={"worker:0": "m1"})


def test_a_command_that_prints_is_told_so() -> None:
    """As a shell's profile may, in front of what the site says."""
    with pytest.raises(MachinesUnavailable, match=r"no message of a site .* does the command, or a profile there, "):
        Cluster(Topology(worker=1), preload=(), machines="sh -c 'echo Welcome to $0; cat >&2' {}:m0").__enter__()


def test_a_machine_that_cannot_be_reached_says_why() -> None:
    """With the words of the command; nothing is left of the other one."""
    command = "sh -c 'test $0 = m0 || { echo no route to $0 >&2; exit 9; }; exec \"$@\"' {}:m0,m1"
    with pytest.raises(MachinesUnavailable, match=r"machine m1 cannot be used: .* exit code 9: no route to m1"):
        Cluster(Topology(worker=2), preload=(), machines=command).__enter__()
    eventually(lambda: not _sites(), "the sites to leave")


@pytest.mark.full
def test_ctrl_c_ends_the_tasks_of_all_machines(tmp_path: Path) -> None:
    """It is for the run, and not for the commands that lead to machines."""
    script = textwrap.dedent(f"""
        from simulator import Cluster, Topology
        from tests.simulator.test_machines import _waits
        with Cluster(Topology(worker=2), preload=(), machines={TWO!r}) as cluster:
            cluster.run(_waits, {str(tmp_path)!r})
    """)
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.DEVNULL, start_new_session=True) as driver:
        eventually(lambda: len(_pids(tmp_path)) == 2, "the tasks")
        os.killpg(driver.pid, signal.SIGINT)
        driver.wait(30)
    assert all(map(has_ended, _pids(tmp_path)))
