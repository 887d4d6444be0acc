"""Temporary directories are gone afterwards: whenever the process ends, whatever is in them, and whatever their name
is.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest

from simulator import Cluster, LockstepError, Topology
from simulator.helpers import warden as program
from simulator.helpers.warden import remove_tree
from simulator.machines.local import scratch
from simulator.machines.local.scratch import make_scratch, remove_scratch
from tests.simulator._wire import eventually

# As a user who is not root: one with another number in a user namespace has no rights of its own after `exec`.
ORDINARY = """
import os, sys
if os.geteuid() == 0:
    from simulator import kernel
    group = os.getgid()
    kernel.unshare(kernel.NEW_USER)
    kernel.map_user(1000, 0, 1000, group)
os.execv(sys.executable, [sys.executable, "-c", *sys.argv[1:]])
"""


def _run(script: str, place: str | bytes | Path, *, ordinary: bool = False) -> subprocess.CompletedProcess[str]:
    begin = ["-c", ORDINARY] if ordinary else ["-c"]
    command = [sys.executable, *begin, textwrap.dedent(script)]
    environment = {**os.environb, b"TMPDIR": os.fsencode(place)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("end", "code"), [("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL), ("raise KeyboardInterrupt", -2)]
)
def test_an_end_right_after_the_directory_was_made_leaves_none(end: str, code: int, short_temporary: Path) -> None:
    """The warden knows of it before it exists."""
    script = f"""
        import os, pathlib, signal
        from simulator.machines.local.scratch import make_scratch
        mkdir = os.mkdir
        def made(*args, **kwargs):
            mkdir(*args, **kwargs)
            {end}
        os.mkdir = made
        if hasattr(pathlib, "_NormalAccessor"):  # of Python 3.10, which has taken it before
            pathlib._NormalAccessor.mkdir = staticmethod(made)
        make_scratch("test")
    """
    assert _run(script, short_temporary).returncode == code
    eventually(lambda: not any(short_temporary.iterdir()), "the directory to be removed")


@pytest.mark.parametrize("name", ["with a\nnewline", b"not \xff UTF-8", "+directory x"])
def test_the_place_may_have_any_name(name: str | bytes, short_temporary: Path) -> None:
    """A killed process leaves nothing there, and neither does one that ends."""
    here = os.path.join(os.fsencode(short_temporary), os.fsencode(name))  # noqa: PTH118 - pathlib takes no bytes
    os.mkdir(here)  # noqa: PTH102 - as above
    script = """
        import os, signal, sys
        from simulator import Cluster, Topology
        with Cluster(Topology(worker=1), preload=()) as cluster:
            cluster.run(len, "x")
            assert cluster.run_command(["true"])["worker:0"].exit == 0
            sys.stdout.write(str(cluster._directory))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = _run(script, here)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert done.stdout
    eventually(lambda: not Path(done.stdout).exists() and _is_empty(here), "the directories to be removed")


def _is_empty(directory: bytes) -> bool:
    return not os.listdir(directory)  # noqa: PTH208 - pathlib takes no bytes


READ_ONLY = """
    import os, signal, sys
    from pathlib import Path
    from simulator.machines.local.scratch import make_scratch, remove_scratch
    assert os.geteuid() != 0
    directory = make_scratch("test")
    for mode in (0o500, 0o000, 0o400):
        folder = directory / f"{mode:o}" / "deep"
        folder.mkdir(parents=True)
        (folder / "file").touch()
        for each in (folder, folder.parent):
            each.chmod(mode)
    outside = Path(os.environ["TMPDIR"], "outside")
    outside.mkdir()
    outside.chmod(0o500)
    (directory / "link").symlink_to(outside)
"""


@pytest.mark.parametrize("end", ["remove_scratch(directory)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_read_only_folders_are_removed_too(end: str, short_temporary: Path) -> None:
    """By their owner, who need not be root; what a link leads to is left alone."""
    done = _run(READ_ONLY + f"    {end}\n", short_temporary, ordinary=True)
    if "unshare" in done.stderr:
        pytest.skip("root cannot be an ordinary user here: no user namespaces")
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    eventually(lambda: [path.name for path in short_temporary.iterdir()] == ["outside"], "the directory to be removed")
    assert (short_temporary / "outside").stat().st_mode & 0o777 == 0o500


def test_what_cannot_be_removed_is_said_once(
    short_temporary: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names it, and why."""
    monkeypatch.setattr("tempfile.tempdir", str(short_temporary))
    directory = make_scratch("test")
    with monkeypatch.context() as patch:
        patch.setattr(scratch, "remove_tree", lambda path: "Device or resource busy")
        remove_scratch(directory)
    said = capsys.readouterr().err
    assert said == f"lockstep: the temporary directory {directory} cannot be removed: Device or resource busy\n"
    remove_scratch(directory)
    assert capsys.readouterr().err == ""
    assert not directory.exists()


def test_removing_says_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of the first thing that stayed."""
    (tmp_path / "tree").mkdir()

    def busy(path: object, **how: object) -> None:
        raise OSError(16, "Device or resource busy", "tree")

    assert remove_tree(tmp_path / "nowhere") == ""
    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", busy)
        assert "Device or resource busy" in remove_tree(tmp_path / "tree")
    assert remove_tree(tmp_path / "tree") == ""
    assert not (tmp_path / "tree").exists()


def test_no_temporary_directory_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed, and what to do."""
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(LockstepError, match=r"no temporary directory can be made: .*nowhere.*; set TMPDIR to"):
        make_scratch("test")


def test_a_last_word_that_was_cut_short_removes_nothing(tmp_path: Path) -> None:
    """A parent killed while it speaks may have said the beginning of a path, which is another directory."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "ours").mkdir()
    warden = [sys.executable, "-I", "-S", program.__file__]
    said = b"+directory " + bytes(tmp_path / "ours") + b"\0+directory " + bytes(tmp_path / "kept")
    subprocess.run(warden, input=said, timeout=20, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def _empty_own(folder: str) -> str:
    """worker:0 removes its temporary directory; the others look for theirs afterwards."""
    here, gone = tempfile.gettempdir(), Path(folder, "gone")
    if os.environ["LOCKSTEP_TASK"] == "worker:0":
        shutil.rmtree(here)
        gone.touch()
    while not gone.exists():
        threading.Event().wait(0.005)
    tempfile.tempdir = None  # what was found before is forgotten, as in a process that begins now
    return tempfile.gettempdir() if os.environ["LOCKSTEP_TASK"] != "worker:0" else here


def test_each_task_has_a_temporary_directory_of_its_own(tmp_path: Path) -> None:
    """As on machines of their own: one that removes its directory takes nothing from others, and all are removed."""
    with Cluster(Topology(worker=3), preload=(), timeout=30) as cluster:
        found = [task.value for task in cluster.run(_empty_own, str(tmp_path)).values()]
    assert len(set(found)) == 3
    assert [Path(path).name for path in found] == ["worker-0", "worker-1", "worker-2"]
    assert not any(Path(path).exists() for path in found)
