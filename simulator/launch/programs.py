"""Starts an unmodified program as a task: any command, with its environment and log, in a process group of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from simulator.agent.process import fresh_signals, join_no_one, redirect_output
from simulator.errors import UsageError
from simulator.helpers.doorkeeper import HostDoor
from simulator.launch.forkserver import Launched, forkserver
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

__all__ = ["COUNTERS", "Command", "CommandSpec", "launch_command", "working_directory"]

COUNTERS = ("auto", "fit", "function", "explicit")
_SITE = Path(__file__).parents[1] / "agent" / "site"
_NOT_FOUND = 127


def working_directory() -> Path:
    """Where this process is, which is where tasks run.

    Raises:
        UsageError: it has been deleted.
    """
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working directory has been deleted; change to one that exists") from error


@dataclass(frozen=True)
class Command:
    """A program that every task of a cluster runs.

    Attributes:
        argv: program and arguments; no shell is involved.
        cwd: where it runs.
        steps: how training steps are counted: `fit`, `function` (outermost calls of tf.functions), `explicit` (calls of
            `simulator.step()`), or `auto` for the most telling of those that happen.
    """

    argv: tuple[str, ...]
    cwd: str
    steps: str = "auto"

    @classmethod
    def of(cls, argv: Sequence[str], cwd: str | Path | None = None, steps: str = "auto") -> Command:
        """Check a command before anything is started.

        Raises:
            UsageError: it is empty, is not found, or the way to count is not known.
        """
        where = os.fspath(cwd or working_directory())
        if isinstance(argv, str) or not argv:
            raise UsageError(f"{argv!r} is not a command; give program and arguments, such as ['python', 'train.py']")
        if steps not in COUNTERS:
            raise UsageError(f"steps={steps!r} is not known; accepted are {', '.join(COUNTERS)}")
        if not Path(where).is_dir():
            raise UsageError(f"there is no directory {where}")
        program = argv[0]
        # As the task will look for it: relative to its working directory if there is a slash, else on PATH.
        if shutil.which(str(Path(where, program)) if os.sep in program else program) is None:
            raise UsageError(f"{program!r} is not a program that can be run; is it on PATH?")
        return cls(tuple(argv), where, steps)

    def clients(self, topology: Topology) -> tuple[str, ...]:
        """The tasks whose exit code 0 ends the job well.

        With ps tasks the chief, or all workers where there is none: the program's servers wait in `join` for ever.
        Otherwise all but the evaluator, which by TensorFlow's convention does not end by itself.
        """
        if topology.ps and topology.chief:
            return ("chief:0",)
        return tuple(task for task in topology.tasks if task.partition(":")[0] not in ("ps", "evaluator"))

    def environment(self, environ: Mapping[str, str], agent: bytes, devices: str) -> dict[str, str]:
        """The environment that lets a Python program be counted without a change to it.

        Args:
            environ: the task's environment.
            agent: the task's specification, as JSON; its process connects itself with it.
            devices: logical devices of the task.
        """
        added = dict(environ)
        added["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_SITE), environ.get("PYTHONPATH"))))
        added.setdefault("PYTHONUNBUFFERED", "1")  # a log that is shown while it is written
        added["LOCKSTEP_AGENT"] = agent.decode()
        added["LOCKSTEP_STEPS"] = self.steps
        added["LOCKSTEP_HOME"] = str(_SITE.parents[2])
        if devices.startswith("cpu:"):
            # TensorFlow would otherwise take all memory of every GPU in each task.
            added["CUDA_VISIBLE_DEVICES"] = "-1"
        return added


class CommandSpec(msgspec.Struct, frozen=True):
    """What the process of a task needs to become the program."""

    argv: tuple[str, ...]
    cwd: str
    environ: dict[str, str]
    log: str


def launch_command(command: Command, spec: TaskSpec, door: HostDoor | None = None) -> Launched:
    """Start the program as the process of a task, inside a host where a door is given.

    It is forked by a forkserver that has imported nothing: PR_SET_PDEATHSIG follows the *thread* that forked, and the
    caller's thread may be a short-lived one.
    """
    bare = msgspec.structs.replace(spec, environ={}, tensorflow=False, server=False)
    environ = command.environment(spec.environ, msgspec.json.encode(bare), spec.devices)
    program = CommandSpec(argv=command.argv, cwd=command.cwd, environ=environ, log=spec.log)
    return forkserver(()).start(execute, (program,), spec.task, door)


def execute(spec: CommandSpec) -> NoReturn:
    """Become the program; called in the forked process, and never returns."""
    join_no_one()
    redirect_output(spec.log)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    fresh_signals(python=False)
    try:
        os.chdir(spec.cwd)
        os.execvpe(spec.argv[0], spec.argv, spec.environ)  # noqa: S606 - the program that was asked for
    except OSError as error:
        sys.stderr.write(f"lockstep: {json.dumps(spec.argv)} cannot be run: {error}\n")
        sys.stderr.flush()
        os._exit(_NOT_FOUND)
