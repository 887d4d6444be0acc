"""What a task does between its fork and what the test has for it."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.tf_tests.inside import checkouts, main_block, processes, stacks
from harness.tf_tests.inside.state import STATE, TestFile, for_another

# TensorFlow's tests ask whether "bazel" is in argv[0], each for itself.
ARGUMENTS = ("bazel-lockstep",)


@dataclass(frozen=True)
class TaskStart:
    """What a new process is told of its file.

    Attributes:
        state: of the process that starts it.
        environ: its environment, as a process of bazel's would inherit it.
    """

    state: Mapping[str, Any]
    environ: Mapping[str, str]


def told() -> TaskStart:
    """What the next process has to know."""
    return TaskStart(for_another(), dict(os.environ))


def arrive(given: TaskStart, kind: type) -> object:
    """In the new process, before the rest of the process object is unpickled: be one of the file's."""
    state = dict(given.state)
    if state["file"] is not None:
        state["file"] = TestFile(**state["file"])
    begin(state, given.environ)
    if STATE.legacy_keras:
        from harness.tf_tests.inside import keras_sources

        keras_sources.install()
    return object.__new__(kind)


def begin(state: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Take over what is known, and join the processes that end together; the first one opens their group."""
    import multiprocess

    from simulator import kernel
    from simulator.agent import semaphores

    for name, value in state.items():
        setattr(STATE, name, value)
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    os.environ.update(environ)
    # Whoever has asked for it in the forkserver has had that of the session remembered.
    tempfile.tempdir = None
    semaphores.name_as_asked()
    # The forkserver ends with the session that wanted it, in whatever way that ends.
    with contextlib.suppress(OSError):
        kernel.die_with_parent()
    os.setpgid(0, STATE.group)
    STATE.group = os.getpgid(0)
    sys.argv = list(ARGUMENTS)
    multiprocess.process.current_process()._config["tempdir"] = STATE.scratch  # noqa: SLF001 - no other way
    stacks.answer(Path(STATE.scratch))
    checkouts.install()
    if STATE.packages:
        processes.install()


def run(body: Callable[[], None], *, test_module: bool) -> None:
    """Run this with what absl sets up, and after the test module's `__main__` block."""
    from absl import app

    from harness.tf_tests.inside import strict

    if not test_module:
        body()
        return
    strict.install()
    if STATE.file is not None:
        main_block.run(checkouts.load(STATE.file))
    app.run(lambda _: body(), argv=[*ARGUMENTS, main_block.temporary()])
