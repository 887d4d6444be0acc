"""Nothing is left of forkservers when their parent was killed, whoever else has what they inherited."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from simulator.helpers import warden as program
from simulator.helpers.warden import FORKSERVER_VARIABLE
from simulator.launch import Forkserver
from simulator.machines.local.warden import Warden
from tests._ended import has_ended, living
from tests.simulator._killed_parent import WAYS
from tests.simulator._wire import eventually

# What runs in it does not matter: a forkserver is known by its command and by its environment.
LIKE_A_FORKSERVER = [sys.executable, "-S", "-c", "import signal; signal.pause()  # multiprocess.forkserver"]


@pytest.fixture
def escaped(tmp_path: Path) -> Iterator[Path]:
    """A folder in which the number of each process stands that has no mark; they are killed afterwards."""
    yield tmp_path
    for file in tmp_path.glob("escaped-*"):
        with contextlib.suppress(ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def _lives(pid: int, began: float) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).create_time() == began and not has_ended(pid)
    return False


@pytest.mark.parametrize("way", WAYS)
def test_forkservers_end_with_a_killed_parent(way: str, escaped: Path) -> None:
    """Also if a daemon, or a child of the parent's, still has the pipe at whose end they end, or they do not look."""
    # Newer Pythons warn of a fork beside threads, which is what one of the ways is.
    command = [sys.executable, "-W", "ignore", "-m", "tests.simulator._killed_parent", way, str(escaped)]
    # Into a file: the child, and the tracker of resources for as long as it lives, would keep a pipe open.
    with (escaped / "said").open("w") as said:
        done = subprocess.run(command, stdout=said, stderr=said, timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL, (escaped / "said").read_text()
    forked = json.loads((escaped / "said").read_text())
    assert len(forked) >= (1 if way == "import" else 3)
    eventually(lambda: not any(_lives(*each) for each in forked), f"forkservers to end: {way}")
    # The parent's own child has had the pipe to the end; a daemon of a task ends with the forkserver.
    others = [int(file.read_text()) for file in escaped.glob("escaped-*")]
    eventually(lambda: all(has_ended(pid) is (way == "daemon") for pid in others), "the daemons to end")


def _open_pipes(to: Path) -> None:
    links = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if os.path.lexists(entry)]
    to.write_text("\n".join(map(str, links)))


def test_no_forked_process_has_a_part_in_the_life_of_its_forkserver(tmp_path: Path) -> None:
    """None gets the end of the pipe at whose close the forkserver ends: whatever it starts would inherit that."""
    server = Forkserver(())
    server.start(_open_pipes, (tmp_path / "links",), "task").wait()
    ours = server._server._forkserver_alive_fd
    kept = str(Path(f"/proc/self/fd/{ours}").readlink())
    assert kept.startswith("pipe:")
    assert kept not in (tmp_path / "links").read_text().splitlines()
    server._server._stop()


def test_only_a_forkserver_with_the_mark_is_killed() -> None:
    """Not one with another mark, and no other program that has inherited the mark."""
    mark = f"test-{os.getpid()}-{os.urandom(4).hex()}"
    commands = [(LIKE_A_FORKSERVER, mark), (LIKE_A_FORKSERVER, f"{mark}-too"), (["sleep", "600"], mark)]
    started = [subprocess.Popen(command, env={**os.environ, FORKSERVER_VARIABLE: each}) for command, each in commands]
    try:
        assert program._kill_forked(mark) == [started[0].pid]
        assert started[0].wait(10) == -signal.SIGKILL
        assert [process.poll() for process in started[1:]] == [None, None]
    finally:
        for process in started:
            process.kill()
            process.wait(10)


def test_a_new_warden_knows_what_a_killed_one_was_told(tmp_path: Path) -> None:
    """Else what was registered before would outlive the parent."""
    folders = [tmp_path / name for name in ("forgotten", "before", "after")]
    for folder in folders:
        folder.mkdir()
    warden = Warden()
    warden.watch_directory(folders[0])
    warden.watch_directory(folders[1])
    warden.forget_directory(folders[0])
    first = psutil.Process(warden.pid)
    first.kill()
    assert living([first]) == []
    warden.watch_directory(folders[2])
    second = warden._process
    assert second is not None
    warden._dismiss(second, os.getpid())
    assert [folder.exists() for folder in folders] == [True, False, False]


def test_the_warden_outlives_who_kills_the_children_of_its_parent(tmp_path: Path) -> None:
    """As Ray does when a worker of its own ends: what is no child of the parent is left."""
    (tmp_path / "ours").mkdir()
    script = textwrap.dedent(f"""
        import os, pathlib, psutil, signal
        from simulator.machines.local.warden import Warden
        warden = Warden()
        warden.watch_directory(pathlib.Path({str(tmp_path / "ours")!r}))
        assert warden.pid
        for child in psutil.Process().children():
            child.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
    eventually(lambda: not (tmp_path / "ours").exists(), "the warden to remove the directory")
