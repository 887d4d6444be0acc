"""The environment variables of a task."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from simulator.launch.protocol import Launcher
from simulator.machines.protocol import Process
from simulator.wire.spec import TaskSpec

_OPTIONS = "TF_GRPC_DEFAULT_OPTIONS"
# When a peer's server is not up yet, gRPC waits a second before it tries again, then 1.6 s, 2.6 s and so on up to two
# minutes. Tasks of one machine start within milliseconds of each other. gRPC takes less than 100 ms for 100 ms
# (`ParseArgsForBackoffValues` in its subchannel.cc).
_RECONNECT = {"grpc.initial_reconnect_backoff_ms": "100", "grpc.max_reconnect_backoff_ms": "100"}
_PROXIES = ("grpc_proxy", "no_proxy", "no_grpc_proxy", "http_proxy", "https_proxy")


# Variables are the process's, also while one thread starts a forkserver and another a task.
_lock = threading.Lock()


@contextlib.contextmanager
def changed_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process while it starts another; no task gets them meanwhile."""
    with _lock:
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@runtime_checkable
class _Needing(Protocol):
    """An argument of a call that says what the environment of its process has to have; others may have an `environ`."""

    @property
    def task_environ(self) -> Mapping[str, str]:
        """By name."""


def environ_of(args: Iterable[object]) -> dict[str, str]:
    """What the arguments of a call say of the environment that its process has to begin with."""
    return {name: value for each in args if isinstance(each, _Needing) for name, value in each.task_environ.items()}


def task_environment(task: str, given: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its proxies and `TF_CONFIG`, with what was given.

    Options of gRPC that the caller names, in the environment or in what is given, are as the caller says.
    """
    with _lock:
        environ = {name: value for name, value in os.environ.items() if name.lower() not in _PROXIES}
    environ.pop("TF_CONFIG", None)
    environ["TF_GRPC_REUSE_PORT"] = "1"
    environ["LOCKSTEP_TASK"] = task
    environ.update(given)
    environ[_OPTIONS] = _with_reconnect(environ.get(_OPTIONS, ""))
    return environ


def _with_reconnect(options: str) -> str:
    """Options as TensorFlow reads them, `name=value` with commas between, and those of ours that are not named."""
    said = [option for option in options.split(",") if option]
    named = {option.partition("=")[0] for option in said}
    return ",".join([*(f"{name}={value}" for name, value in _RECONNECT.items() if name not in named), *said])


def local_start(launcher: Launcher, variables: Mapping[str, str] | None = None) -> Callable[[TaskSpec], Process]:
    """What starts one: in this process's environment, with `variables` and those of the specification on top."""

    def start(spec: TaskSpec) -> Process:
        environ = task_environment(spec.task, {**(variables or {}), **spec.environ})
        return launcher.launch(msgspec.structs.replace(spec, environ=environ))

    return start
