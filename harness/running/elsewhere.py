"""The Python of another environment: what is known of it, and the reference of a program that is made by it.

The other environment has a folder of its own among the kept references. What comes back are the names of trace files,
which do not depend on TensorFlow.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from _lockstep.names import HOME
from harness.errors import Abstained, NoRoom, NothingObserved
from harness.evidence.reference import ReferenceFiles
from harness.running.depends import code_digest
from harness.subject.program import Program
from harness.subject.script import Script
from simulator import RunFailed, RunResult, TaskError, UsageError
from simulator.capabilities.versions import why_refused
from simulator.machines.local.scratch import scratch

__all__ = ["Failed", "Interpreter", "Reply", "Request", "asked_elsewhere", "its_environ"]

_PROBE_SECONDS_MAX = 60.0
_END_SECONDS_MAX = 10.0
# The working directory does not count: it may hold anything.
_START = "import sys; sys.path[:] = [each for each in sys.path if each]; "
_PROBE = (
    _START + "import json, platform\n"
    "from importlib.metadata import PackageNotFoundError, version\n"
    "told = {'python': platform.python_version()}\n"
    "for name in sys.argv[1:]:\n"
    "    try: told[name] = version(name)\n"
    "    except PackageNotFoundError: pass\n"
    "try:\n"
    "    from _lockstep.elsewhere import code\n"
    "    told['code'] = code()\n"
    "except ImportError as error: told['lacks'] = str(error)\n"
    "print(json.dumps(told))\n"
)
_ANSWER = "from _lockstep.elsewhere import answer; answer(*sys.argv[1:])"
_PACKAGES = ("tensorflow", "keras", "tf_keras", "numpy", "tf-lockstep")


class Interpreter(msgspec.Struct, frozen=True):
    """The Python of another environment that has TensorFlow and this Lockstep.

    Attributes:
        path: absolute; of a virtual environment the link in its folder.
        versions: of Python and of the packages that numbers depend on.
    """

    path: str
    versions: dict[str, str]

    @classmethod
    def of(cls, path: str | Path | Interpreter) -> Interpreter:
        """Ask a Python what it has; one that has been asked is as it is.

        Raises:
            UsageError: it is no Python that could make a reference; the message says what to do.
        """
        if isinstance(path, Interpreter):
            return path
        place = Path(path).expanduser().absolute()
        told = _probed(place)
        ours = f"{place} -m pip install {_ours()}"
        if "tensorflow" not in told:
            raise UsageError(
                f"{place} has no TensorFlow (Python {told.get('python')}), so no reference can be made there; install "
                "what the training needs, or name another environment's Python"
            )
        if why := why_refused(told["tensorflow"]):
            raise UsageError(f"{place}: {why}")
        if "code" not in told:
            raise UsageError(
                f"{place} has no Lockstep that can be imported ({told.get('lacks')}); both environments need it: {ours}"
            )
        if told["code"] != code_digest():
            raise UsageError(
                f"{place} has another Lockstep (version {told.get('tf-lockstep')}, with other code than this one), and "
                f"runs are compared of one and the same only: {ours}"
            )
        return cls(str(place), {name: text for name, text in told.items() if name not in ("code", "tf-lockstep")})

    def running(self, code: str, *arguments: str) -> list[str]:
        """The command that runs code there; the working directory does not count for what it imports."""
        return [self.path, "-c", _START + code, *arguments]


class Request(msgspec.Struct, frozen=True):
    """What the other Python is asked for: a program, and the arguments of `left_reference`."""

    asked: dict[str, Any]
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


def asked_elsewhere(program: Program, asked: Mapping[str, Any], python: Interpreter, cache: Path) -> ReferenceFiles:
    """Have another Python make a reference.

    Args:
        program: a script, or a function of a file.
        asked: the arguments of `left_reference`.
        python: who makes it.
        cache: where references are kept.

    Raises:
        UsageError: the other Python cannot find the program, or does not take it.
        Abstained: as of `reference_of`.
        NothingObserved: as of `reference_of`.
        RunFailed: as of `reference_of`; or the other Python ended without an answer.
    """
    if program.script is None and program.origin is None:
        raise UsageError(
            f"{program.name} cannot be found by another Python: with a reference of another environment a program is a "
            "function at the top of a file, or FILE.py:FUNCTION, or a script"
        )
    request = Request(dict(asked), None if program.script is not None else program.origin, program.script)
    with scratch("elsewhere") as folder:
        question, answer, log = folder / "request.json", folder / "reply.json", folder / "log"
        question.write_bytes(msgspec.json.encode(request))
        code = _call(python, cache, question, answer, log)
        if not answer.exists():
            text = f"ended with exit code {code} without an answer"
            error = TaskError("local:0", "NoResult", f"{text}\n{_end(log)}")
            raise RunFailed((error,), RunResult({}, 0.0, folder), during=_where(python))
        reply = msgspec.json.decode(answer.read_bytes(), type=Reply)
        if reply.made is None:
            assert reply.failed is not None
            raise _raised(reply.failed, program, python, folder)
    return reply.made


def _call(python: Interpreter, cache: Path, question: Path, answer: Path, log: Path) -> int:
    # Two environments may differ in a package that no name in the cache stands for.
    own = cache / f"python-{hashlib.sha256(python.path.encode()).hexdigest()[:12]}"
    environ = {**its_environ(), "LOCKSTEP_CACHE": str(own)}
    command = python.running(_ANSWER, str(question), str(answer))
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            return process.wait()  # each of its runs has a deadline
        finally:
            # After an interruption: what it has started goes with it.
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                process.wait(_END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()


def its_environ() -> dict[str, str]:
    """Ours without what would have the other Python load the libraries of this one."""
    return {name: text for name, text in os.environ.items() if name not in ("PYTHONHOME", "VIRTUAL_ENV")}


def _probed(place: Path) -> dict[str, str]:
    if not place.is_file():
        raise UsageError(f"there is no Python {place}; name the interpreter of an environment, such as old/bin/python")
    try:
        done = subprocess.run(
            [str(place), "-c", _PROBE, *_PACKAGES],
            env=its_environ(),
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{place} does not start as a Python: {error}") from error
    try:
        return msgspec.json.decode(done.stdout.encode(), type=dict[str, str])
    except msgspec.DecodeError as error:
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UsageError(f"{place} is no Python from 3.10 on: {said}") from error


def _ours() -> str:
    """What to install for the same Lockstep."""
    from importlib.metadata import PackageNotFoundError, version

    if (HOME / "pyproject.toml").exists():
        return str(HOME)
    try:
        return f"tf-lockstep=={version('tf-lockstep')}"
    except PackageNotFoundError:
        return str(HOME)


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
