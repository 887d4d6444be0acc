"""How the process of a task is started on the machine of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from simulator.launch.environment import task_environment
from simulator.launch.protocol import Launcher
from simulator.machines.protocol import Process
from simulator.wire.spec import TaskSpec

__all__ = ["local_start"]


def local_start(launcher: Launcher, variables: Mapping[str, str] | None = None) -> Callable[[TaskSpec], Process]:
    """What starts one: in this process's environment, with `variables` and those of the specification on top."""

    def start(spec: TaskSpec) -> Process:
        environ = task_environment(spec.task, None, {**(variables or {}), **spec.environ})
        return launcher.launch(msgspec.structs.replace(spec, environ=environ))

    return start
