"""Tasks that are an unmodified program: any command, on its own, whose exit code says whether it ended well."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from simulator.agent.graph_errors import readable
from simulator.agent.program import TaskProgram, become
from simulator.agent.script import become_script
from simulator.errors import TaskError, UsageError
from simulator.launch.forkserver import fork
from simulator.launch.preloaded import HARMLESS, preloaded
from simulator.launch.protocol import EntryPoint, Failure, ProcessEnd
from simulator.machines.local.disk_space import full_disk
from simulator.machines.protocol import Process
from simulator.topology import Topology
from simulator.wire.spec import TaskSpec

COUNTERS = ("auto", "fit", "gradient", "function", "explicit")
_PYTHON = re.compile(r"python[\d.]*")
_SITE = Path(__file__).parents[1] / "agent" / "site"


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
class Programs:
    """A program that every task of a cluster runs.

    Attributes:
        argv: program and arguments; no shell is involved.
        cwd: where it runs.
        steps: how training steps are counted: `fit`, `gradient` (gradients that are taken), `function` (outermost
            calls of tf.functions), `explicit` (calls of `simulator.step()`), or `auto` for the most telling of those
            that happen.
    """

    argv: tuple[str, ...]
    cwd: str
    steps: str = "auto"

    @property
    def call(self) -> None:
        """A program begins and ends when it likes."""
        return

    @property
    def environ(self) -> dict[str, str]:
        """It sets by itself what it wants, before it imports anything."""
        return {}

    @classmethod
    def of(cls, argv: Sequence[str], cwd: str | Path | None = None, steps: str = "auto") -> Programs:
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
            script = program.endswith(".py") and Path(where, program).is_file()
            meant = f"give the Python that runs it, python {program}" if script else "is it on PATH?"
            raise UsageError(f"{program!r} is not a program that can be run; {meant}")
        script_file = next((each for each in argv[1:] if each not in HARMLESS), "")
        if (
            _PYTHON.fullmatch(Path(program).name)
            and script_file.endswith(".py")
            and not Path(where, script_file).exists()
        ):
            raise UsageError(f"there is no file {script_file!r} in {where}")
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

    def entry(self, spec: TaskSpec) -> EntryPoint:
        """The process becomes the program.

        One that is not `preloaded` is forked by a forkserver that has imported next to nothing: PR_SET_PDEATHSIG
        follows the *thread* that forked, and the caller's thread may be a short-lived one.
        """
        bare = msgspec.structs.replace(spec, environ={}, tensorflow=False, server=False)
        environ = self.environment(spec.environ, msgspec.json.encode(bare), spec.devices)
        if (found := preloaded(self.argv, self.cwd, spec.environ)) is not None:
            script = TaskProgram(argv=found.argv, cwd=self.cwd, environ=environ, log=spec.log)
            return EntryPoint(found.modules, become_script, (script,), found.variables)
        return EntryPoint((), become, (TaskProgram(argv=self.argv, cwd=self.cwd, environ=environ, log=spec.log),))

    def launch(self, spec: TaskSpec) -> Process:
        """Start it."""
        return fork(self.entry(spec), spec.task)

    def failure(self, end: ProcessEnd) -> Failure | None:
        """Any exit code but 0."""
        if end.signal:
            return "Signal", f"killed by {end.signal}"
        if end.exit == 0:
            return None
        said = last_exception(_read(end.log))
        return "Exit", f"ended with exit code {end.exit}{f': {said}' if said else ''}{full_disk(end.log)}"

    def complaint(self, error: TaskError, log: Path) -> str:
        """Its log: nothing else is known of a program."""
        return _read(log)


_TRACEBACK = "Traceback (most recent call last)"
_AT_THE_END = ("--- Logging error ---", "Exception ignored in")
"""So begins what Python says of errors that end nothing, as of objects that it lets go after another error."""


_SYNTAX = re.compile(r'^ +File "(?P<file>[^"]+)", line (?P<line>\d+)\n(?: .*\n)*?(?P<said>\w+Error: .*)$', re.MULTILINE)
"""What Python says of a file that it cannot compile, where no traceback is above it."""
_MORE_LINES_MAX = 8


def last_exception(log: str) -> str | None:
    """The line with which the last Python traceback in a log ends, for example `ValueError: no data`.

    One that ends in the middle of a sentence has the next ones with it.
    """
    before, mark, last = log.rpartition(_TRACEBACK)
    if before.rstrip().rpartition("\n")[2].startswith(_AT_THE_END):
        return last_exception(before)
    found = re.search(r"^((?:[a-zA-Z_]\w*\.)*[A-Z]\w*(?:: .*)?)$", last, re.MULTILINE)
    if not mark and (wrong := _SYNTAX.search(log)) is not None:
        return f"{wrong['said']} ({Path(wrong['file']).name}:{wrong['line']})"
    if not found or not mark:
        return None
    kind, _, said = last[found.start() :].partition(": ")
    # Of an error in a graph the first line says no more than that it is one.
    told, first = readable(said).partition("\n")[0], said.partition("\n")[0]
    return f"{kind}: {_sentence(said) if told == first else told}" if ": " in found[1] else found[1]


def _sentence(text: str) -> str:
    """Its first line, with those after it as long as a bracket is open, or a colon or a comma ends it."""
    first, *others = list(filter(None, map(str.strip, text.splitlines()))) or [""]
    for line in others[:_MORE_LINES_MAX]:
        is_open = any(first.count(one) > first.count(other) for one, other in ("{}", "[]", "()"))
        if not (is_open or first.endswith((":", ","))):
            break
        first = f"{first} {line}"
    return first


def _read(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except FileNotFoundError:
        return ""
