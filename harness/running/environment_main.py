"""In the Python of another environment: makes the runs that a verification asks for, and says where they are."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.running.other_environment import Failed, Reply, Request
from harness.running.reference_request import make_runs
from harness.running.reference_runs import Runs
from harness.subject.program import Program
from simulator import LockstepError
from simulator.kernel import die_with_parent

__all__ = ["answer"]


def answer(request: str, reply: str) -> None:
    """Read a `Request` from one file and write a `Reply` into another."""
    die_with_parent()
    asked = msgspec.json.decode(Path(request).read_bytes(), type=Request)
    try:
        program = Program.of(asked.origin) if asked.origin is not None else _script(asked)
        runs = Runs(
            program,
            Path(asked.directory),
            asked.seed,
            asked.timeout,
            follows=asked.follows,
            hardware=asked.hardware,
            strategy=asked.strategy,
        )
        found = Reply(made=make_runs(runs, asked.wanted))
    except LockstepError as error:
        found = Reply(failed=Failed.of(error))
    new = Path(reply).with_suffix(".new")
    new.write_bytes(msgspec.json.encode(found))
    new.replace(reply)


def _script(asked: Request) -> Program:
    assert asked.script is not None
    return Program.of_script(asked.script)
