"""TensorFlow's pool of processes, whose pipes hold no answer of another test.

After a time-out the pipe of a slow task still gets its answer, which the next test would take for its own
(`multi_process_runner.py`, 1038); a pool in which something like that has happened is ended, and the next test has a
new one. Nor does it wait for a task for 120 s only: how long a test may take is said by whoever runs it.
"""

# ruff: noqa: SLF001 - what has to be replaced is private
from __future__ import annotations

import contextlib
import threading
from types import ModuleType
from typing import Any

from harness.tf_tests.inside.strict_runner import trouble

_MARK = "_lockstep_strict"
# How the messages of `MultiProcessPoolRunner.run` begin when its machinery fails, and not the function that it ran.
_MACHINERY = ("Timeout waiting", "Total timeout", "Unexpected EOF", "No result received")


def install() -> None:
    """Replace `run`; again after `importlib.reload`."""
    from tensorflow.python.distribute import multi_process_runner as library

    pool = library.MultiProcessPoolRunner
    if hasattr(pool, _MARK):
        return
    setattr(pool, _MARK, True)
    original = pool.run
    library.threading = Patient(threading)

    def run(self: Any, fn: Any, args: Any = None, kwargs: Any = None) -> Any:
        try:
            return original(self, fn, args, kwargs)
        except (RuntimeError, OSError) as error:
            if isinstance(error, RuntimeError) and not str(error).startswith(_MACHINERY):
                raise
            ends = _ends(self)
            _abandon(self)
            raise RuntimeError(trouble(f"{error}{ends}")) from error

    pool.run = run


class Patient:
    """The module `threading`, but that who joins the pool's thread for an answer waits for it.

    After `--tf-test-seconds` all processes of the file say their stacks and are killed, which tells more.
    """

    def __init__(self, real: ModuleType) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return _Thread if name == "Thread" else getattr(self._real, name)


class _Thread(threading.Thread):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answers = getattr(kwargs.get("target"), "__name__", "") == "recv_with_timeout"

    def join(self, timeout: float | None = None) -> None:
        super().join(None if self._answers else timeout)


def _ends(pool: Any) -> str:
    """What is known of those of its processes that have ended; the pool forgets them itself after an end of file."""
    from harness.tf_tests.inside import tasks

    return "".join(f"; {name} ended with exit code {code}" for name, code in tasks.ended_now())


def _abandon(pool: Any) -> None:
    with contextlib.suppress(Exception):
        if pool._runner is not None:
            pool._runner.terminate_all()
    with contextlib.suppress(Exception):
        pool.shutdown()


def end_all() -> None:
    """End the pools, as TensorFlow does when the module has been torn down."""
    from tensorflow.python.distribute import multi_process_runner as library

    for pool in list(library._active_pool_runners):
        with contextlib.suppress(Exception):
            pool.shutdown()
