"""What has left its process group is found by the mark in its environment, also when the parent was killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import psutil
import pytest

from simulator import Cluster, Topology
from simulator.helpers.warden import MARK_VARIABLE, kill_marked
from simulator.journal import read_journal
from simulator.kernel import now_ticks
from simulator.launch import Forkserver
from simulator.machines.local.machine import LocalMachine
from simulator.machines.protocol import GROUP
from simulator.wire.events import Who
from tests._ended import living
from tests._installed import ROOT, run_there
from tests.simulator._wire import eventually

# A daemon, and the file that says that it is there; the program itself stays or ends.
PROGRAM = "setsid sh -c 'touch {there}; exec sleep 600.{number}' & {then}"


def _daemons(number: int) -> list[psutil.Process]:
    return [
        process for process in psutil.process_iter(["cmdline"]) if f"600.{number}" in (process.info["cmdline"] or ())
    ]


def _number() -> int:
    return int.from_bytes(os.urandom(4), "big")


def test_a_daemon_of_a_program_ends_with_the_run(tmp_path: Path) -> None:
    """It is killed when the job has ended well, and the journal says so."""
    number, there = _number(), tmp_path / "there"
    program = PROGRAM.format(there=there, number=number, then=f"while [ ! -e {there} ]; do :; done")
    with Cluster(Topology(worker=1), preload=(), timeout=30, out=tmp_path / "out") as cluster:
        cluster.run_command(["sh", "-c", program])
    assert there.exists()
    assert _daemons(number) == []
    events = [event for event in read_journal(tmp_path / "out" / "0" / "journal.jsonl") if event["event"] == "leaked"]
    assert len(events) == 1


def test_a_process_that_becomes_another_program_is_found(tmp_path: Path) -> None:
    """In the midst of that it has no environment to be read, and still has to be seen."""
    script = tmp_path / "again"
    script.write_text('#!/bin/sh\nexec "$0"\n')
    script.chmod(0o700)
    for number in range(20):
        mark = f"{_number()}-{number}"
        with subprocess.Popen([script], env={**os.environ, MARK_VARIABLE: mark}) as process:
            found = kill_marked(mark)
            process.kill()
        assert found == [process.pid]


def _kill_parent_of(command: list[str], there: Path) -> None:
    """Start a run of a command in another process, which is killed as soon as this file is there."""
    script = textwrap.dedent(f"""
        import os, pathlib, signal
        from simulator import Cluster, Topology
        with Cluster(Topology(worker=1), preload=()) as cluster, cluster.start_command({command!r}):
            while not pathlib.Path({str(there)!r}).exists():
                pass
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_daemon_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """SIGKILL of Lockstep itself leaves the warden, which finds it."""
    number, there = _number(), tmp_path / "there"
    _kill_parent_of(["sh", "-c", PROGRAM.format(there=there, number=number, then="wait")], there)
    eventually(lambda: not _daemons(number), "the daemon to end")


# A daemon that has nothing of the run: neither a parent, nor a session, nor a mark.
BARE = """
import os, pathlib, sys
there, number = sys.argv[1:]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path(there).touch()
        os.execve("/bin/sleep", ["sleep", f"600.{number}"], {})
    os._exit(0)
os.wait()
"""


def test_a_daemon_without_a_mark_ends_with_the_run(tmp_path: Path) -> None:
    """An adopter of the forkserver has it, so that an emptied environment does not hide it; the journal says so."""
    number, there = _number(), tmp_path / "there"
    with Cluster(Topology(worker=1), preload=(), timeout=30, out=tmp_path / "out") as cluster:
        cluster.run_command([sys.executable, "-c", BARE, str(there), str(number)])
    assert there.exists()
    assert _daemons(number) == []
    assert (
        len([each for each in read_journal(tmp_path / "out" / "0" / "journal.jsonl") if each["event"] == "leaked"]) == 1
    )


def test_a_daemon_without_a_mark_ends_with_the_last_of_several_runs(tmp_path: Path) -> None:
    """Nobody knows which it is of; what another run has started itself is left alone."""
    number, there = _number(), tmp_path / "there"
    with (
        Cluster(Topology(worker=1), preload=(), timeout=30) as other,
        other.start_command(["sleep", "60"]) as run,
        Cluster(Topology(worker=1), preload=(), timeout=30) as cluster,
    ):
        cluster.run_command([sys.executable, "-c", BARE, str(there), str(number)])
        assert len(_daemons(number)) == 1
        assert run.tasks["worker:0"].alive
    assert _daemons(number) == []


def test_a_daemon_without_a_mark_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """SIGKILL of Lockstep itself: an adopter ends what it has adopted, or the warden does."""
    number, there = _number(), tmp_path / "there"
    waits = BARE + "import threading; threading.Event().wait()"
    _kill_parent_of([sys.executable, "-c", waits, str(there), str(number)], there)
    eventually(lambda: not _daemons(number), "the daemon to end")


@pytest.mark.parametrize(
    "killed", ["forkserver", *(pytest.param(f"{each} adopter", marks=pytest.mark.full) for each in ("lower", "upper"))]
)
def test_a_daemon_without_a_mark_ends_with_a_killed_forkserver(killed: str, tmp_path: Path) -> None:
    """Or with one of its two adopters: the other one has the daemon then, and ends it. So it does the task."""
    number, there, server = _number(), tmp_path / "there", Forkserver(())
    server.start(os.system, (shlex.join([sys.executable, "-c", BARE, str(there), str(number)]),), "task").wait()
    eventually(lambda: len(_daemons(number)) == 1, "the daemon")
    (daemon,) = _daemons(number)
    forking = psutil.Process(server.pid)
    lower, upper = forking.parents()[:2]
    assert (daemon.ppid(), upper.ppid()) == (lower.pid, os.getpid())
    task = server.start(signal.pause, (), "task")
    {"forkserver": forking, "lower adopter": lower, "upper adopter": upper}[killed].kill()
    task.wait()
    assert living([forking]) == []
    eventually(lambda: not _daemons(number), "the daemon to end")
    server.warm_up()  # another one
    server._server._stop()


def test_what_a_forkserver_has_forked_is_no_orphan() -> None:
    """Whoever has asked for it: only that has lost its parents which is below an adopter, and not below the server."""
    server = Forkserver(())
    orphan = "import os; os.fork() or (os.setsid(), os.execv('/bin/sleep', ['sleep', '60']))"
    task = server.start(signal.pause, (), "task")
    server.start(os.system, (shlex.join([sys.executable, "-c", orphan]),), "parent").wait()
    found = server.end_orphans()
    assert len(found) == 1
    assert task.exit_code() is None
    assert server.end_orphans() == []
    server._server._stop()
    task.wait()


def test_only_the_marked_are_killed() -> None:
    """A process of another run, or of none, goes on."""
    number = _number()
    marks = [{MARK_VARIABLE: f"mine-{number}"}, {MARK_VARIABLE: f"mine-{number}-too"}, {}]
    started = [subprocess.Popen(["sleep", f"600.{number}"], env={"PATH": os.environ["PATH"], **mark}) for mark in marks]
    try:
        assert kill_marked(f"mine-{number}") == [started[0].pid]
        assert started[0].wait(10) == -signal.SIGKILL
        assert [process.poll() for process in started[1:]] == [None, None]
    finally:
        for process in started:
            process.kill()
            process.wait(10)


def test_what_a_killed_warden_would_have_removed_is_removed() -> None:
    """Nobody has noticed its end; when the parent ends in order, another one tidies up."""
    script = """
        import os, signal, sys
        from simulator.machines.local import scratch, warden
        place = scratch.make_scratch("test")
        os.kill(warden.warden.pid, signal.SIGKILL)
        print(place)
    """
    said = run_there(ROOT, sys.executable, "-c", textwrap.dedent(script)).stdout
    assert "lockstep-test-" in said
    assert not Path(said.strip()).exists()


class _Gone:
    """A process that has ended, and whose number is given to others."""

    pid = 0


def test_a_group_whose_number_is_a_strangers_by_now_is_left_alone(tmp_path: Path) -> None:
    """The end of the task was seen before the stranger began; the control is that what the task has left is killed."""
    gone, who = _Gone(), Who("worker:0", 0)
    machine = LocalMachine(tmp_path, lambda spec: pytest.fail("nothing is started"))
    for seen_before, code in ((True, None), (False, -signal.SIGKILL)):
        machine._processes[who] = gone  # type: ignore[assignment]
        if seen_before:
            machine._see_end(who)
            seen = now_ticks()
            eventually(lambda seen=seen: now_ticks() > seen, "the clock")  # type: ignore[misc]
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
            gone.pid = stranger.pid
            if not seen_before:
                machine._see_end(who)
            machine.signal([who], signal.SIGKILL, GROUP)
            machine.end([who], None)
            if code is None:
                assert stranger.poll() is None
                stranger.kill()
            assert stranger.wait(10) == -signal.SIGKILL


def _temporary(to: Path) -> None:
    to.write_text(f"{tempfile.gettempdir()} {os.environ.get('TMPDIR')}")


@pytest.mark.parametrize("given", [True, False])
def test_a_forkserver_tries_its_temporary_directory_where_it_is_removed(
    given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python writes a file into it when it is asked for one first; what is forked has that of the parent."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    (there := tmp_path / "there").mkdir()
    monkeypatch.setenv("TMPDIR", str(there)) if given else monkeypatch.delenv("TMPDIR", raising=False)
    server = Forkserver(())
    server.start(_temporary, (tmp_path / "said",), "task").wait()
    expected = str(there) if given else None
    assert (tmp_path / "said").read_text() == f"{tempfile.gettempdir()} {expected}"
    assert server._log is not None
    began = Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
    assert f"TMPDIR={server._log.parent}".encode() in began
    server._server._stop()
