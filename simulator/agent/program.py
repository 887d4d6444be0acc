"""The process of a task becomes an unmodified program."""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

import msgspec

from simulator.agent.process import fresh_signals, join_no_one, redirect_output, without_input

_NOT_FOUND = 127


class TaskProgram(msgspec.Struct, frozen=True):
    """What the process of a task needs to become the program."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    log: str


def become(spec: TaskProgram) -> NoReturn:
    """Become the program; called in the forked process, and never returns."""
    join_no_one()
    redirect_output(spec.log)
    without_input()
    fresh_signals(python=False)
    try:
        os.chdir(spec.cwd)
        os.execvpe(spec.argv[0], spec.argv, spec.environ)  # noqa: S606 - the program that was asked for
    except OSError as error:
        sys.stderr.write(f"lockstep: {json.dumps(spec.argv)} cannot be run: {error}\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)
