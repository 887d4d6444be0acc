"""In the Python of another environment: makes the reference that a verification asks for, and says where it is."""

from __future__ import annotations

from pathlib import Path

import msgspec

from harness.running.elsewhere import Failed, Reply, Request
from harness.running.reference import left_reference
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
        found = Reply(made=left_reference(program, **asked.asked))
    except LockstepError as error:
        found = Reply(failed=Failed.of(error))
    new = Path(reply).with_suffix(".new")
    new.write_bytes(msgspec.json.encode(found))
    new.replace(reply)


def _script(asked: Request) -> Program:
    assert asked.script is not None
    return Program.of_script(asked.script)
