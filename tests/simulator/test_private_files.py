"""A private view of the file system: what is written in it is seen by nobody else, and what is kept by everybody."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from simulator import Cluster, Topology
from simulator.helpers.private_files import planned
from simulator.machines.local.private_files import PrivateFilesUnavailable, private_files
from tests._installed import run_there
from tests.simulator._wire import eventually

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("covered", "kept", "mounts"),
    [
        (["/home"], [], [("/home", True)]),
        (["/home", "/home/u"], [], [("/home", True)]),
        (["/home"], ["/home/u/out"], [("/home", True), ("/home/u/out", False)]),
        (
            ["/home", "/home/u/out/x"],
            ["/home/u/out"],
            [("/home", True), ("/home/u/out", False), ("/home/u/out/x", True)],
        ),
        (["/tmp/p"], ["/tmp"], [("/tmp/p", True)]),
        (["/home"], ["/mnt", "/homer"], [("/home", True)]),
    ],
)
def test_only_what_is_needed_is_mounted(covered: list[str], kept: list[str], mounts: list[tuple[str, bool]]) -> None:
    """From the outside in, and nothing twice."""
    assert list(planned(covered, kept)) == mounts


def _write(holder: int, place: str) -> list[str]:
    from simulator.agent.private_files import enter_view

    enter_view(holder)
    folder = Path(place)
    seen = [(folder / "there").read_text()]
    (folder / "there").write_text("changed")
    (folder / "new").write_text("new")
    (folder / "kept" / "result").write_text("result")
    return [*seen, *sorted(path.name for path in folder.iterdir())]


def test_what_is_written_inside_stays_inside(tmp_path: Path) -> None:
    """Two tasks of one view see each other's files; the directory itself stays as it was, but for what is kept."""
    (tmp_path / "there").write_text("before")
    (tmp_path / "kept").mkdir()
    try:
        with (
            private_files([tmp_path], [tmp_path / "kept"]) as view,
            Cluster(Topology(worker=1), preload=(), timeout=30) as cluster,
        ):
            first = cluster.run(_write, view.holder, str(tmp_path))["worker:0"].value
            second = cluster.run(_write, view.holder, str(tmp_path))["worker:0"].value
    except PrivateFilesUnavailable as why:
        pytest.skip(f"this machine has no mounts of its own: {why}")
    assert first == ["before", "kept", "new", "there"]
    assert second == ["changed", "kept", "new", "there"]
    assert (tmp_path / "there").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "there"]
    assert (tmp_path / "kept" / "result").read_text() == "result"


def test_ctrl_c_is_not_for_who_holds_the_view(tmp_path: Path) -> None:
    """It is in a session of its own, where no terminal sends anything; it ends with this process."""
    try:
        with private_files([tmp_path], []) as view:
            assert os.getsid(view.holder) != os.getsid(0)
    except PrivateFilesUnavailable as why:
        pytest.skip(f"this machine has no mounts of its own: {why}")


KILLED = """
import os, pathlib, signal, sys
from simulator.machines.local.private_files import PrivateFilesUnavailable, private_files
before = set(os.listdir("/dev/shm"))
try:
    with private_files([pathlib.Path(sys.argv[1])], []):
        print(*(name for name in os.listdir("/dev/shm") if name not in before and "lockstep-files" in name), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
except PrivateFilesUnavailable as why:
    sys.exit(str(why))
"""


def test_a_killed_parent_leaves_nothing_in_memory(tmp_path: Path) -> None:
    """What was written in the view is gone from there as well."""
    done = run_there(ROOT, sys.executable, "-c", KILLED, str(tmp_path), code=None)
    if done.returncode == 1:
        pytest.skip(done.stderr)
    assert done.returncode == -signal.SIGKILL
    eventually(lambda: not any(Path("/dev/shm", name).exists() for name in done.stdout.split()), "it to be removed")
    assert done.stdout.split()


def test_where_temporary_files_are_nothing_can_be_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is mounted, with what to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for place in (Path("/"), tmp_path):
        with (
            pytest.raises(PrivateFilesUnavailable, match="put the script into a directory of its own"),
            private_files([place], []),
        ):
            pass


def test_a_script_among_temporary_files_has_them_in_common() -> None:
    """As scripts of systems for continuous integration are; who meets whom there is said afterwards."""
    temporary = Path(tempfile.gettempdir())
    try:
        with private_files([temporary], []) as view:
            assert str(temporary.resolve()) not in view.covered
    except PrivateFilesUnavailable as why:
        pytest.skip(str(why))
