"""The directory in which a job leaves the evidence of single steps, for whoever judges them elsewhere.

    DIR/worker-0.0/job.json                 what the first process of a task is and runs
    DIR/worker-0.0/1.step, 500.step, ...    the steps that it has left
    DIR/worker-0.0/ended                    that it has come to its end
    DIR/worker-0.0/digests, given           what tells of each step whether copies agree, and batches come again
    DIR/worker-0.0/saved.jsonl              what its checkpoints have
    DIR/judged.jsonl                        what was found, a line a step
    DIR/judge.lock                          is locked while a judge is at work

Each process has a folder of its own. A task that is started again has a new one, whose number is the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from socket import gethostname

import msgspec
import psutil

from harness.evidence.steps import EvidenceReader, loose_steps
from harness.evidence.trace import Header, chief_first

JUDGED = "judged.jsonl"
_JOB, _PART, _ENDED = "job.json", ".part", "ended"
_FOLDER = re.compile(r".+\.(?P<number>\d+)")
_READ_BY_LIBRARIES = ("TF_", "KERAS_", "XLA_", "NVIDIA_TF32_OVERRIDE")
_OF_CLUSTERS = "TF_CONFIG"
# Terraform's variables begin alike. Many of them are secrets, and a deposit is read by others.
_OF_TERRAFORM = ("TF_CLI_", "TF_ENCRYPTION", "TF_HTTP_", "TF_TOKEN_", "TF_VAR_")


class DepositJob(msgspec.Struct, frozen=True):
    """What a process is and runs.

    Attributes:
        header: of its trace.
        script: the file of the script; empty where none was started.
        args: of it.
        cwd: where it was started.
        digest: of the script.
        variables: of its environment, as far as TensorFlow and Keras read them.
        host: that it runs on.
        hardware: what its replicas compute on, `cpu` or `gpu`.
        tf32: whether they may multiply float32 in TF32.
        pid: of the process; 0 where that is not known.
        began: when the system started it, in seconds of its clock.
        pids: as of the function.
    """

    header: Header
    script: str
    args: tuple[str, ...]
    cwd: str
    digest: str
    variables: dict[str, str]
    host: str = ""
    hardware: str = "cpu"
    tf32: bool = False
    pid: int = 0
    began: float = 0.0
    pids: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it ran on this machine."""
        return self.host == gethostname()

    @property
    def is_gone(self) -> bool:
        """Whether its process has ended, as far as this machine knows."""
        if not self.pid or not self.is_here or self.pids != pids():
            return False
        try:
            process = psutil.Process(self.pid)
            return process.create_time() != self.began or process.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True


def pids() -> str:
    """Whose ids of processes are meant here: a container on the same host may have others."""
    with contextlib.suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def digest_of(script: str) -> str:
    """That of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(Path(script).read_bytes()).hexdigest()
    except OSError:
        return ""


def variables_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that TensorFlow and Keras read, without what says who a process is."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_READ_BY_LIBRARIES) and not name.startswith((_OF_CLUSTERS, *_OF_TERRAFORM))
    }


def opened(deposit: Path, job: DepositJob) -> Path:
    """A folder for a process, which tells whose it is.

    Raises:
        OSError: it cannot be made.
    """
    deposit.mkdir(parents=True, exist_ok=True)
    stem = job.header.task.replace(":", "-")
    number = max((int(path.name.rpartition(".")[2]) + 1 for path in deposit.glob(f"{stem}.*")), default=0)
    folder = deposit / f"{stem}.{number}"
    folder.mkdir()
    temporary = folder / f"{_JOB}{_PART}"
    temporary.write_bytes(msgspec.json.encode(job))
    temporary.replace(folder / _JOB)
    return folder


def ended(folder: Path) -> None:
    """Note that the process of a folder has come to its end.

    Raises:
        OSError: it cannot be noted.
    """
    (folder / _ENDED).touch()


def has_ended(folder: Path) -> bool:
    """Whether the process of a folder has come to its end."""
    return (folder / _ENDED).exists()


class Training:
    """The processes of a deposit that train together.

    Args:
        number: how often they had been started before.
        folders: of these processes, by what each is.
    """

    def __init__(self, number: int, folders: Mapping[Path, DepositJob]) -> None:
        self.number = number
        self.folders = dict(sorted(folders.items(), key=lambda each: chief_first(each[1].header.task)))
        self.job = next(iter(self.folders.values()))

    @property
    def steps(self) -> list[int]:
        """Those that all of them have left, and that are still there."""
        if len(self.folders) < self.job.header.clients:
            return []
        return sorted(set.intersection(*(set(loose_steps(folder)) for folder in self.folders)))

    @property
    def is_over(self) -> bool:
        """Whether all of them have come to their end."""
        return all(has_ended(folder) for folder in self.folders)

    @property
    def gone(self) -> str | None:
        """The first of its processes that has ended and not come to its end, in words; None where there is none."""
        left = (job for folder, job in self.folders.items() if not has_ended(folder) and job.is_gone)
        return next((f"process {job.pid}, {job.header.task}" for job in left), None)

    def size(self, step: int) -> int:
        """Bytes that a step takes in all of them, as far as it is still there."""
        found = [loose_steps(folder).get(step) for folder in self.folders]
        with contextlib.suppress(FileNotFoundError):
            return sum(path.stat().st_size for path in found if path is not None)
        return 0

    def readers(self) -> list[tuple[DepositJob, EvidenceReader]]:
        """What reads the steps of each."""
        return [(job, EvidenceReader(folder)) for folder, job in self.folders.items()]


def trainings(deposit: Path) -> list[Training]:
    """Those of a deposit, in the order in which they began, without the processes of `unknown`."""
    found: dict[int, dict[Path, DepositJob]] = {}
    for number, folder in _folders(deposit):
        if (job := _job(folder)) is not None:
            found.setdefault(number, {})[folder] = job
    return [Training(number, folders) for number, folders in sorted(found.items())]


def unknown(deposit: Path) -> list[Path]:
    """The files that should say of what process steps are, and are missing or cannot be read."""
    return [folder / _JOB for _, folder in _folders(deposit) if loose_steps(folder) and _job(folder) is None]


def _folders(deposit: Path) -> Iterator[tuple[int, Path]]:
    """Those of processes, each with how often its task had been started before."""
    for folder in sorted(deposit.glob("*.*")):
        if (match := _FOLDER.fullmatch(folder.name)) is not None and folder.is_dir():
            yield int(match["number"]), folder


def _job(folder: Path) -> DepositJob | None:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.json.decode((folder / _JOB).read_bytes(), type=DepositJob)
    return None
