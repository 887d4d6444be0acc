"""The reference of a program that is made by the Python of another environment.

What comes back are the names of trace files, which do not depend on TensorFlow.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
from pathlib import Path

import msgspec

from harness.errors import Abstained, NoRoom, NothingObserved
from harness.evidence.reference import ReferenceFiles
from harness.evidence.steps import Segment
from harness.running.interpreter import Interpreter, its_environ
from harness.running.reference_request import ReferenceRequest, make_runs
from harness.running.reference_runs import Runs
from harness.subject.program import Program
from harness.subject.script import Script
from simulator import LockstepError, RunFailed, RunResult, TaskError, UsageError
from simulator.kernel import die_with_parent
from simulator.machines.local.scratch import scratch

_END_SECONDS_MAX = 10.0
# The imports of a forkserver on a busy machine.
_BEGIN_SECONDS_MAX = 60.0
_ANSWER = "from _lockstep.elsewhere import answer; answer(*sys.argv[1:])"


class Request(msgspec.Struct, frozen=True):
    """What the other Python is asked for: runs of a program, a function of a file by its `origin` or a script.

    The rest is as of `harness.running.reference_runs.Runs` and `harness.running.reference_request.make_runs`.
    """

    wanted: ReferenceRequest
    directory: str
    seed: int
    timeout: float
    follows: tuple[Segment, ...]
    hardware: str
    strategy: str = "default"
    origin: str | None = None
    script: Script | None = None


class _Cause(msgspec.Struct, frozen=True):
    """A `TaskError`."""

    task: str
    kind: str
    message: str
    traceback: str
    at: float
    bases: tuple[str, ...]


class Failed(msgspec.Struct, frozen=True):
    """Why there is no reference: the class of the error, what it says, and of a run that failed its causes."""

    kind: str
    message: str
    causes: tuple[_Cause, ...] = ()
    stacks: dict[str, str] = {}

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """What is told of an error."""
        kinds = (NothingObserved, Abstained, NoRoom, UsageError, RunFailed)
        kind = next((each.__name__ for each in kinds if isinstance(error, each)), type(error).__name__)
        if not isinstance(error, RunFailed):
            return cls(kind, str(error))
        causes = (
            _Cause(each.task, each.kind, each.message, each.traceback, each.at, each.bases) for each in error.causes
        )
        return cls(kind, str(error), tuple(causes), error.stacks)


class Reply(msgspec.Struct, frozen=True):
    """What the other Python has made, or why not."""

    made: ReferenceFiles | None = None
    failed: Failed | None = None


def runs_of_environment(runs: Runs, wanted: ReferenceRequest, python: Interpreter) -> ReferenceFiles:
    """As `harness.running.reference_request.make_runs`, by another Python.

    Raises:
        UsageError: the other Python cannot find the program, or does not take it.
        Abstained: as of `made`.
        NothingObserved: as of `made`.
        RunFailed: as of `made`; or the other Python ended without an answer.
    """
    program = runs.program
    if program.script is None and program.origin is None:
        raise UsageError(
            f"{program.name} cannot be found by another Python: with a reference of another environment a program is a "
            "function at the top of a file, or FILE.py:FUNCTION, or a script"
        )
    origin = None if program.script is not None else program.origin
    where = (str(runs.directory), runs.seed, runs.timeout, runs.follows, runs.hardware, runs.strategy)
    request = Request(wanted, *where, origin, program.script)
    with scratch("elsewhere") as folder:
        question, answer, log = folder / "request.json", folder / "reply.json", folder / "log"
        question.write_bytes(msgspec.json.encode(request))
        # Each run has a deadline of its own; two may be made again for what differs, and each has to begin.
        count = 3 + wanted.noise + len(wanted.others)
        seconds = count * (runs.timeout + _BEGIN_SECONDS_MAX)
        code = _call(python, question, answer, log, seconds)
        if code is None:
            text = f"did not answer within {seconds:g} s, in which {count} runs could be made\n{_end(log)}"
            error = TaskError("local:0", "Hang", text)
            raise RunFailed((error,), RunResult({}, 0.0, folder), during=_where(python))
        if not answer.exists():
            text = f"ended with exit code {code} without an answer"
            error = TaskError("local:0", "NoResult", f"{text}\n{_end(log)}")
            raise RunFailed((error,), RunResult({}, 0.0, folder), during=_where(python))
        reply = msgspec.json.decode(answer.read_bytes(), type=Reply)
        if reply.made is None:
            assert reply.failed is not None
            raise _raised(reply.failed, program, python, folder)
    return reply.made


def _call(python: Interpreter, question: Path, answer: Path, log: Path, seconds: float) -> int | None:
    """The exit code; None if it does not come within so many seconds."""
    command = python.running(_ANSWER, str(question), str(answer))
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=its_environ(), stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            return process.wait(min(seconds, threading.TIMEOUT_MAX))
        except subprocess.TimeoutExpired:
            return None
        finally:
            # Also after an interruption: what it has started goes with it.
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(_END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


def _where(python: Interpreter) -> str:
    return f"the reference run by {python.path} (TensorFlow {python.versions['tensorflow']})"


def _raised(failed: Failed, program: Program, python: Interpreter, folder: Path) -> Exception:
    if failed.kind == "NothingObserved":
        return NothingObserved(program.name)
    if failed.kind == "Abstained":
        return Abstained(failed.message)
    if failed.kind == "NoRoom":
        return NoRoom(failed.message)
    if failed.kind == "RunFailed":
        causes = tuple(
            TaskError(each.task, each.kind, each.message, traceback=each.traceback, at=each.at, bases=each.bases)
            for each in failed.causes
        )
        return RunFailed(causes, RunResult({}, 0.0, folder), stacks=failed.stacks, during=_where(python))
    return UsageError(f"{python.path}: {failed.message}")


def _end(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


# In the Python of another environment: makes the runs that a verification asks for, and says where they are.


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
