"""A view of the file system for the tasks of a run, in which what they write is seen by nobody else."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from _lockstep.children import child_command
from simulator.errors import LockstepError
from simulator.machines.local.scratch import scratch

# What a program has no business to write into, is no directory on a disk, or holds our own files.
_NOT_COVERED = {"bin", "boot", "dev", "etc", "proc", "run", "sbin", "sys", "tmp", "usr"}
_MEMORY = Path("/dev/shm")  # noqa: S108 - a directory of our own is made there
_SECONDS_MAX = 20.0


class PrivateFilesUnavailable(LockstepError):
    """Raised when this machine gives no view of the file system of one's own.

    Attributes:
        why: what it refuses, in a few words.
    """

    def __init__(self, text: str, why: str = "") -> None:
        super().__init__(text)
        self.why = why


class PrivateView:
    """A view that is held.

    Attributes:
        holder: the process that holds it, for `simulator.agent.private_files.enter_view`.
        covered: the directories below which what is written is private.
        written: by the folder where it is kept, in files of the same names, the directory below which it is written.
    """

    def __init__(self, holder: int, covered: tuple[str, ...], written: Mapping[str, str]) -> None:
        self.holder = holder
        self.covered = covered
        self.written = written


@contextlib.contextmanager
def private_files(own: Iterable[Path], kept: Iterable[Path]) -> Iterator[PrivateView]:
    """Hold a view for the time of this context.

    Args:
        own: directories that have to be covered, wherever they are, but for that of temporary files itself, in which
            runs have to keep apart by themselves. All others of the machine's top floor are covered too, but for those
            of the system and `/tmp`.
        kept: directories that are as outside, such as those that results are written to.

    Raises:
        PrivateFilesUnavailable: this machine does not give it, or one of `own` is the root, or holds what holds `/tmp`.
    """
    temporary = str(Path(tempfile.gettempdir()).resolve())
    own_paths = sorted({str(path.resolve()) for path in own} - {temporary})
    for path in own_paths:
        if path == "/" or f"{temporary}/".startswith(f"{path}/"):
            raise PrivateFilesUnavailable(
                f"what is written below {path} cannot be kept apart, since temporary files are there too; put the "
                "script into a directory of its own and start it there"
            )
    top = [f"/{path.name}" for path in Path("/").iterdir() if path.is_dir() and not path.is_symlink()]
    covered = sorted(
        {*(path for path in top if path[1:] not in _NOT_COVERED and not path.startswith("/lib")), *own_paths}
    )
    shown = {temporary, *(str(path.resolve()) for path in kept), *_mounts()}
    with contextlib.ExitStack() as stack:
        places = [str(stack.enter_context(scratch("files")))]
        if _MEMORY.is_dir():
            places.append(str(stack.enter_context(scratch("files", _MEMORY))))
        asked = {"covered": covered, "kept": sorted(shown), "places": places}
        held = stack.enter_context(_held(asked))
        yield PrivateView(held["pid"], tuple(covered), held["written"])


def _mounts() -> Iterator[str]:
    """Where other file systems are, which an overlay would not show."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        path = line.split(" ")[1].encode().decode("unicode_escape")
        if path != "/" and os.access(path, os.R_OK):
            yield path


@contextlib.contextmanager
def _held(asked: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    command = child_command("simulator.helpers.private_files", isolated=True)
    # In a session of its own: Ctrl-C is for this process, whose end it notices.
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as holder:
        try:
            assert holder.stdin is not None
            assert holder.stdout is not None
            holder.stdin.write(json.dumps(asked) + "\n")
            holder.stdin.flush()
            line = holder.stdout.readline()
            answer = json.loads(line) if line else {"why": "the process that should hold it has ended"}
            if answer["why"]:
                raise PrivateFilesUnavailable(
                    f"this machine gives no private view of the file system ({answer['why']}), so that a run could "
                    "read and write the files of another one; allow user namespaces and overlays (in a container "
                    "--cap-add SYS_ADMIN), or verify the training as a function with `record`",
                    why=answer["why"],
                )
            yield answer
        finally:
            with contextlib.suppress(BrokenPipeError):
                holder.communicate(timeout=_SECONDS_MAX)
