"""A script that leaves by `os._exit`: it has come to its end, and its process has still to say what was seen."""

from __future__ import annotations

import contextlib
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.recording.client import _until_exit
from harness.recording.scripts import client
from harness.subject.script import Script
from simulator.agent.tracebacks import leave_out_own
from tests.harness._loop import Verified


def _left(name: str, *, aside: bool = False) -> list[int]:
    """The exit codes by which a process is left at once that calls `os._exit(3)` in a module of this name."""
    left: list[int] = []
    leave: Any = left.append
    called: dict[str, Any] = {"__name__": name, "leave": client._leaving(leave)}
    call = compile("try:\n    leave(3)\nexcept SystemExit as end:\n    code = end.code", "<script>", "exec")
    if aside:
        thread = threading.Thread(target=exec, args=(call, called))
        thread.start()
        thread.join()
    else:
        exec(call, called)
    assert called["code"] == 3
    return left


def test_only_the_main_thread_of_a_script_ends_by_an_exception() -> None:
    """What Lockstep ends, such as by a fault, ends at once; here it goes on, since nothing is really left."""
    assert _left("__main__") == []
    assert _left("train.helpers") == []
    assert _left("__main__", aside=True) == [3]
    assert _left("simulator.agent.faults.crash") == [3]


_LEAVES = """\
import os

import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w = tf.Variable([1.0, 2.0], name="w")


@tf.function
def train():
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w**2) / 2
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, w)))

    strategy.run(step)


for _ in range(3):
    train()
os._exit(0)
"""


@pytest.mark.full
def test_a_script_that_leaves_is_judged(verified: Verified) -> None:
    """As the advice for a coordinator that hangs at its end has it."""
    assert verified(_LEAVES, "mirrored-2", prove=False).outcome == "consistent"


def test_a_script_that_ends_itself_with_a_code_is_shown_at_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at ours, which says what it means."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "train.py").write_text("import sys\nsys.exit(2)\n")
    script = Script.of(["python", "train.py"])
    with pytest.raises(RuntimeError, match=r"train.py ended itself with exit code 2") as caught:
        client._execute(script, {})
    leave_out_own(caught.value)
    assert caught.value.__suppress_context__
    files = [frame.path for frame in caught.traceback]
    assert str(files[-1]).endswith("train.py")


@pytest.mark.parametrize(("code", "ends"), [(0, True), (None, True), (2, False)])
def test_a_function_may_end_as_a_script_does(code: int | None, ends: bool) -> None:
    """With what it has done; another code is a failure."""

    def train(strategy: Any, record: Any) -> None:
        sys.exit(code)

    with contextlib.nullcontext() if ends else pytest.raises(SystemExit):
        _until_exit(train, None, None)
