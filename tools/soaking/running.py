"""Carries out one case of the soak, and notes all that can be seen of it from outside."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from simulator import kernel
from tools.soaking.cases import Blow, Case, Limit, command_of

ROOT = Path(__file__).parents[2]
# From the timeout of a run to its end, on a busy machine.
_END_SECONDS_MAX = 65.0
# What a warden takes at most under load to end and remove what a killed parent has left.
_TIDY_SECONDS_MAX = 8.0
_LIMITS = {"files": resource.RLIMIT_NOFILE, "file_bytes": resource.RLIMIT_FSIZE, "memory_bytes": resource.RLIMIT_AS}
_ENTER = "from _lockstep.command import main; main()"
_ON_SMALL_DISK = (
    "import os, sys; from pathlib import Path; from simulator.machines.local.small_disk import see_small_disk; "
    "see_small_disk(Path(sys.argv[1]), int(sys.argv[2])); os.execv(sys.executable, [sys.executable, *sys.argv[3:]])"
)


class Seen(msgspec.Struct):
    """What was seen of a case.

    Attributes:
        code: the exit code; None if it did not end in time, and was killed.
        stdout: what the command wrote.
        stderr: what it wrote besides.
        struck: whether the blow fell, or the limit came, while it ran.
        left: what was there when it had gone: processes, temporary files, ports.
        folder: where its results are, until the case is over.
        seconds: it took.
    """

    code: int | None
    stdout: str
    stderr: str
    struck: bool
    left: list[str]
    folder: Path
    seconds: float

    @property
    def outcome(self) -> dict[str, object] | None:
        """What it printed as data; None if it printed none."""
        for line in reversed(self.stdout.splitlines()):
            with contextlib.suppress(msgspec.DecodeError):
                return msgspec.json.decode(line, type=dict[str, object])
        return None


@contextlib.contextmanager
def carried_out(case: Case, packages: Path = ROOT) -> Iterator[Seen]:
    """Run the case; its results are there until the context is left.

    Args:
        case: what to run.
        packages: where Lockstep's code is.
    """
    kernel.adopt_orphans()
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir="/tmp"))
    try:
        yield _carried_out(case, packages, folder)
    finally:
        for path, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                Path(path).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _carried_out(case: Case, packages: Path, folder: Path) -> Seen:
    for name in ("tmp", "cwd", "disk"):
        (folder / name).mkdir()
    small = case.limit is not None and case.limit.what == "disk_bytes"
    out = folder / "disk" / "out" if small else folder / "out"
    words = ["-c", _ENTER, *command_of(case, out)]
    if small and case.limit is not None:
        words = ["-c", _ON_SMALL_DISK, str(folder / "disk"), str(case.limit.amount), *words]
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP")},
        "PYTHONPATH": str(packages),
        "TMPDIR": str(folder / "tmp"),
    }
    began = time.monotonic()
    # Not into files, which a limit may keep from growing.
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder / "cwd", env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    struck = small
    if case.limit is not None and not small:
        struck = _limited(process, case.limit)
    elif case.blow is not None:
        struck = _struck(process, case.blow)
    code = _ended(process, case.timeout)
    seconds = time.monotonic() - began
    # What is left may hold the pipes open, and is killed by this.
    left = _left(folder)
    stdout, stderr = process.communicate()
    return Seen(code, stdout, stderr, struck, left, out, seconds)


def _ended(process: subprocess.Popen[str], timeout: float) -> int | None:
    """The exit code; what it writes fits into pipes, since tasks write into logs."""
    try:
        return process.wait(timeout + _END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def _limited(process: subprocess.Popen[str], limit: Limit) -> bool:
    """Limit it so long after it has begun to start tasks: before that it lacks what a command needs to say so."""
    while process.poll() is None and not _found(process.pid, "forkserver"):
        time.sleep(0.005)
    time.sleep(limit.after)
    amount = limit.amount
    try:
        if limit.what == "memory_bytes":  # so much more than it has
            amount += psutil.Process(process.pid).memory_info().vms
        resource.prlimit(process.pid, _LIMITS[limit.what], (amount, amount))
    except (OSError, psutil.Error):
        return False
    return process.poll() is None


def _struck(process: subprocess.Popen[str], blow: Blow) -> bool:
    target: int | None = process.pid
    if blow.target != "lockstep":
        while (target := _found(process.pid, blow.target)) is None and process.poll() is None:
            time.sleep(0.005)
    if target is None:
        return False
    time.sleep(blow.after)
    with contextlib.suppress(ProcessLookupError):
        if process.poll() is None:
            os.kill(target, signal.Signals[blow.signal])
            return True
    return False


def _found(lockstep: int, name: str) -> int | None:
    try:
        return _target(lockstep, name)
    except psutil.Error:  # one has ended while it was looked at
        return None


def _target(lockstep: int, name: str) -> int | None:
    """The process of this name, if it is there by now."""
    if name == "warden":  # it has left its parent, and was adopted here
        wardens = [
            each for each in psutil.Process().children() if any("helpers/warden.py" in w for w in each.cmdline())
        ]
        return wardens[0].pid if wardens else None
    tops = [each for each in psutil.Process(lockstep).children() if _is_forkserver(each)]
    lower = [each for top in tops for each in top.children()]
    below = [each.children() for each in lower]  # asked once: the next answer may be another
    servers = [min(children, key=psutil.Process.create_time) for children in below if children]
    if name in ("forkserver", "adopter"):
        forking = [server for server in servers if server.children()]
        return None if not forking else forking[-1].pid if name == "forkserver" else forking[-1].ppid()
    forked = [child for server in servers for child in server.children()]
    if name == "worker":
        programs = [child.pid for child in forked if any("program.py" in word for word in child.cmdline())]
        return programs[0] if programs else None
    helpers = [child for child in forked if _is_forkserver(child) and not child.children()]
    if name == "relay":  # a task that is about to become its program looks like it, but for the ports
        return next((each.pid for each in helpers if each.net_connections("tcp")), None)
    own = Path("/proc/self/ns/user").readlink()
    return next((each.pid for each in helpers if _user(each.pid) not in (None, own)), None)


def _is_forkserver(process: psutil.Process) -> bool:
    return any("multiprocess.forkserver" in word for word in process.cmdline())


def _user(pid: int) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/user").readlink()
    except OSError:
        return None


def _left(folder: Path) -> list[str]:
    """What does not go away within the time that tidying may take."""
    deadline = time.monotonic() + _TIDY_SECONDS_MAX
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = [*_processes(), *(f"file {path.name}" for path in (folder / "tmp").iterdir())]
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            child.kill()
    return [*left, *_ports(folder)]


def _processes() -> list[str]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.append(f"process {' '.join(child.cmdline())[:100] or child.name()}")
    return found


def _ports(folder: Path) -> list[str]:
    """Ports of the run on which one of it listens: by now they may be those of another run, or of nobody.

    To connect tells less: who connects to a port that nobody has may be given it, and meets itself.
    """
    found = psutil.net_connections("tcp")
    listening = {each.laddr.port: each.pid for each in found if each.laddr and each.status == psutil.CONN_LISTEN}
    left = []
    for journal in folder.glob("**/journal.jsonl"):
        for line in journal.read_bytes().splitlines():
            with contextlib.suppress(msgspec.DecodeError):
                event = msgspec.json.decode(line)
                for address in event.get("addresses", {}).values() if event["event"] == "start" else ():
                    host, _, port = address.rpartition(":")
                    if host == "127.0.0.1" and int(port) in listening and _is_of(folder, listening[int(port)]):
                        left.append(f"port {port}")
    return left


def _is_of(folder: Path, pid: int | None) -> bool:
    """Whether a process began with the temporary directory of this case; so does one of which nothing is known."""
    try:
        return pid is None or str(folder) in psutil.Process(pid).environ().get("TMPDIR", "")
    except psutil.Error:
        return True
