"""Stands for TensorFlow's `multi_process_lib`: its processes come from the forkserver that this one came from.

The names are those that TensorFlow's module has, since its runner and tests use them. Loaded under that module's name,
so nothing but TensorFlow imports it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from multiprocess import context

from harness.tf_tests.inside import task_start, tasks
from harness.tf_tests.inside.state import STATE
from simulator.wire.forking import Popen, Server


def is_oss() -> bool:
    """Always: otherwise tests would use what only Google has, such as the protocol `grpc+loas`."""
    return True


class _TaskProcess(context.ForkServerProcess):  # type: ignore[misc]  # multiprocess has no type hints
    """A process that has the test module and what its `__main__` block sets up before it runs what it was made for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # As in the original: subclasses replace `run` of the instance, and the manager's process keeps its own.
        self._run_impl: Callable[[], None] = getattr(self, "run")  # noqa: B009 - untyped
        setattr(self, "run", self._run_prepared)  # noqa: B010 - as above

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The new process is told where it is before anything of the test module is unpickled there.
        return task_start.arrive, (task_start.told(), type(self)), self.__dict__

    def start(self) -> None:
        try:
            super().start()
        except Exception as error:
            STATE.trouble.append(f"{self.name} could not be started: {type(error).__name__}: {error}")
            raise
        tasks.started(self)
        # Workers of tf.data's service are started by their tests, without the runner, which notes its own.
        STATE.started = STATE.started or not tasks.is_manager(self.name)

    def _run_prepared(self) -> None:
        task_start.run(self._run_impl, test_module=not tasks.is_manager(self.name))

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - multiprocess calls it so
        return Popen(process_obj, Server.own())


class _Context(context.ForkServerContext):  # type: ignore[misc]  # multiprocess has no type hints
    _name = "lockstep_forkserver"
    Process = _TaskProcess


multiprocessing = _Context()
Process = multiprocessing.Process


def test_main() -> None:
    """What a test module's `__main__` block calls; there is nothing left to run."""
    STATE.initialized = True
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"


def initialized() -> bool:
    """Whether the module's `__main__` block has called `test_main`."""
    return STATE.initialized
