"""Whether the runs of one verification saw each other's files.

A run that reads what the reference has left may not have trained at all. Each client notes the files that it reads and
writes, with the times, beside its trace. Who has written a file last before it is read decides: the run itself, or
nobody of this verification, is fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from harness.errors import SharedState

NOTES = ".files"
"""How the names of notes end."""


class Touch(msgspec.Struct, frozen=True, array_like=True):
    """One access to a file, or to the prefix of a checkpoint: `at` is in seconds since the epoch."""

    path: str
    at: float
    writes: bool


_DECODER = msgspec.json.Decoder(Touch)


def notes_of(trace: Path) -> Path:
    """The notes beside a trace."""
    return trace.with_suffix(NOTES)


def read_touched(*folders: Path) -> tuple[Touch, ...]:
    """What all processes of a run have noted, beside their traces in these folders and in those below."""
    files = [notes for folder in folders for notes in sorted(folder.rglob(f"*{NOTES}"))]
    return tuple(touch for notes in files for touch in _read(notes))


def _read(notes: Path) -> Iterable[Touch]:
    for line in notes.read_bytes().splitlines():
        try:
            yield _DECODER.decode(line)
        except msgspec.DecodeError:  # the process was killed inside of it
            continue


def check_independent(program: str, runs: Mapping[str, Sequence[Touch]]) -> None:
    """Fail if a run has read a file that another one had written, and not itself since then.

    Args:
        program: its name.
        runs: what each run has touched, by what a sentence calls the run.

    Raises:
        SharedState: names the file, who has read and who has written it.
    """
    written = {touch.path for touches in runs.values() for touch in touches if touch.writes}
    accesses = sorted(
        ((touch.at, not touch.writes, run, touch) for run, touches in runs.items() for touch in touches),
        key=lambda access: access[:2],  # at the same time, first what is written
    )
    last: dict[str, str] = {}
    for _, _, run, touch in accesses:
        if touch.path not in written:
            continue
        if touch.writes:
            last[touch.path] = run
        elif (writer := last.get(touch.path, run)) != run:
            raise SharedState(program, touch.path, reader=run, writer=writer)


def reads_back(touches: Iterable[Touch]) -> bool:
    """Whether a run has read a file that it writes, so that two of them must not run at the same time."""
    touched = list(touches)
    return not {each.path for each in touched if each.writes}.isdisjoint(
        each.path for each in touched if not each.writes
    )
