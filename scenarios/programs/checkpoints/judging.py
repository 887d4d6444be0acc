"""Restore directories in a new process and say what came of each: which step, an error, nothing, or garbage."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from simulator import Cluster, RunFailed

OLD, NEW, FRESH, GARBAGE = "old", "new", "fresh start", "garbage"
GOOD = (OLD, NEW)
_RESTORE_SECONDS_MAX = 10
_NAMES = {1: OLD, 2: NEW, 9: FRESH, None: GARBAGE}


class LostState(Exception):
    """Raised in a task when a state can be lost without an error, or neither the old nor the new one is left."""


def tell(problems: Sequence[str]) -> None:
    """In a task: raise `LostState` if there are problems, so that a known issue can be held to its symptom."""
    if problems:
        raise LostState("; ".join(problems))


def outcomes(cluster: Cluster, name: str, directories: Sequence[Path], log: Path) -> list[str]:
    """What a restore finds in each directory: `old`, `new`, `fresh start`, `garbage` or `raised CLASS: message`.

    One new process restores them one after the other, each into new objects whose values have been overwritten before.
    If the process dies, that is the outcome of the directory at hand (`crashed`, or `hung` after ten seconds), and a
    new process goes on with the next.
    """
    log.touch()
    while (done := _lines(log)) < len(directories):
        try:
            cluster.run(restore_all, name, directories[done:], log)
        except RunFailed as failure:
            if failure.root_cause.kind not in {"Signal", "Exit"}:
                raise
            hung = "SIGALRM" in failure.root_cause.message
            _append(log, "hung" if hung else f"crashed: {failure.root_cause.message}")
    return [json.loads(line) for line in log.read_text().splitlines()]


def restore_all(name: str, directories: Sequence[Path], log: Path) -> None:
    """In a task: restore each directory and write its outcome."""
    for directory in directories:
        # The default action of SIGALRM ends the process, also within a native library that loops.
        signal.alarm(_RESTORE_SECONDS_MAX)
        outcome = _restore(name, directory)
        signal.alarm(0)
        _append(log, outcome)


def _restore(name: str, directory: Path) -> str:
    from scenarios.programs.checkpoints import formats

    try:
        saver = formats.build(name, directory)
        formats.fill(saver, formats.CLOBBERED)
        if not saver.restore():
            return FRESH
        return _NAMES[formats.identify(saver)]
    except Exception as error:  # noqa: BLE001 - whatever a restore raises is its outcome
        message = str(error).replace(str(directory), "").strip().partition("\n")[0]
        return f"raised {type(error).__name__}: {message[:150]}"


def _append(log: Path, outcome: str) -> None:
    with log.open("a") as file:
        file.write(json.dumps(outcome) + "\n")


def _lines(log: Path) -> int:
    return len(log.read_text().splitlines())
