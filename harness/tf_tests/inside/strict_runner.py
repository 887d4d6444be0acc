"""TensorFlow's `MultiProcessRunner`, held to its own promises: a task that died by itself is never a success.

TensorFlow 2.21, `multi_process_runner.py`: line 668 asks for `exitcode > 0`, while a signal's is negative; a task that
exits with 0 before it has said anything is not missed at all. A task that the test has killed is no failure.
"""

# ruff: noqa: SLF001 - what has to be replaced is private
from __future__ import annotations

import os
import signal
from typing import Any

from harness.tf_tests.inside import pickles, tasks
from harness.tf_tests.inside.state import STATE
from simulator.agent.devices import physical_gpus

_MARK = "_lockstep_strict"
# For the log of a task that has died: the threads that read it end when its pipe does.
_LOG_SECONDS_MAX = 5.0


def trouble(text: str) -> str:
    """Note that the running of the current test went wrong; the text again."""
    STATE.trouble.append(text)
    return text


def install() -> None:
    """Replace what is not strict; again after `importlib.reload`."""
    from tensorflow.python.distribute import multi_process_runner as library

    library.is_oss = lambda: True
    if hasattr(library.MultiProcessRunner, _MARK):
        return
    setattr(library.MultiProcessRunner, _MARK, True)
    _note_use(library)
    _carry_exceptions(library)
    _watch_deaths(library)
    _see_answers(library)
    _wake_watchdog(library)


def _note_use(library: Any) -> None:
    """The runner and its pool ask this first: under plain pytest they refuse the test here."""
    original = library._check_initialization

    def check_initialization() -> None:
        STATE.started = True
        original()

    library._check_initialization = check_initialization


def _carry_exceptions(library: Any) -> None:
    original = library._run_contained

    def run_contained(task_type: str, task_id: int, fn: Any, args: Any, kwargs: Any) -> Any:
        _see_named_gpus()
        info = original(task_type, task_id, fn, args, kwargs)
        if info.exc_info is None:
            return info
        error = pickles.with_traceback(info.exc_info[1], f"{task_type}-{task_id}")
        return info._replace(exc_info=(type(error), error, error.__traceback__))

    library._run_contained = run_contained


def _see_named_gpus() -> None:
    """See the GPUs that the runner has just named in `CUDA_VISIBLE_DEVICES`, where it shares them out.

    TensorFlow lists CUDA's devices when it is first asked. Those of a pluggable library, as simulated GPUs are, it
    lists when it is imported, which was in the forkserver.
    """
    import tensorflow as tf

    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        physical_gpus(tf)


def _see_answers(library: Any) -> None:
    """Note who has said how it ended, also as the runner forgets all but the last answer of each."""
    original = library.MultiProcessRunner._get_process_statuses

    def statuses(self: Any) -> Any:
        found = original(self)
        self._lockstep_answered = {*getattr(self, "_lockstep_answered", ()), *found}
        return found

    library.MultiProcessRunner._get_process_statuses = statuses


def _watch_deaths(library: Any) -> None:
    original = library.MultiProcessRunner.join

    def join(self: Any, timeout: int | None = library._DEFAULT_TIMEOUT_SEC) -> Any:
        try:
            result = original(self, timeout)
        except (library.SubprocessTimeoutError, library.UnexpectedSubprocessExitError) as error:
            trouble(str(error))
            raise
        if dead := _died(self):
            for thread in self._reading_threads:
                thread.join(_LOG_SECONDS_MAX)
            raise library.UnexpectedSubprocessExitError(trouble("; ".join(dead)), result)
        return result

    library.MultiProcessRunner.join = join


def _died(runner: Any) -> list[str]:
    """A sentence for each task that ended neither by its function, nor because the runner or the test ended it."""
    answered: set[tuple[str, int]] = getattr(runner, "_lockstep_answered", set())
    found = []
    for (kind, number), process in runner._processes.items():
        code, name = process.exitcode, f"Subprocess {kind}-{number}"
        if code is None:
            continue
        if code < 0:
            by = signal.Signals(-code)
            meant = (kind, number) in runner._terminated and by in (signal.SIGKILL, signal.SIGTERM)
            if not meant and int(by) not in tasks.sent(process.pid):
                found.append(f"{name} exited with exit code {code}: it was killed by {by.name}")
        elif code == 0 and (kind, number) not in answered and (kind, number) not in runner._terminated:
            found.append(f"{name} exited with exit code 0 before its function had returned")
    return found


def _wake_watchdog(library: Any) -> None:
    """Have the watchdog look when a process ends, and not a second later: it learns the same, sooner."""
    from multiprocess import connection

    original = library.MultiProcessRunner._process_watchdog
    real = library.time

    def process_watchdog(self: Any) -> None:
        seen: set[int] = set()

        def until_one_ends(seconds: float) -> None:
            with self._process_lock:
                processes = list(self._processes.values())
            ended = {each.pid for each in processes if each.exitcode is not None}
            news = ended - seen
            seen.update(ended)
            waiting = [each.sentinel for each in processes if each.pid not in ended]
            if not news and waiting:
                connection.wait(waiting, timeout=seconds)
            elif not news:
                real.sleep(seconds)

        clock.waits.wait = until_one_ends
        original(self)

    clock = _Clock(real)
    library.time = clock
    library.MultiProcessRunner._process_watchdog = process_watchdog


class _Clock:
    """The module `time`, but for `sleep` in a thread that has something better to wait for."""

    def __init__(self, real: Any) -> None:
        import threading

        self._real = real
        self.waits = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def sleep(self, seconds: float) -> None:
        """Wait for what this thread waits for, at most so long."""
        getattr(self.waits, "wait", self._real.sleep)(seconds)
