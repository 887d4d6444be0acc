"""A script that leaves by `os._exit`: it has come to its end, and its process has still to say what was seen."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.recording.scripts import client


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


@pytest.mark.full
def test_a_script_that_leaves_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the advice for a coordinator that hangs at its end has it."""
    (tmp_path / "train.py").write_text("""\
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
""")
    monkeypatch.chdir(tmp_path)
    assert verify(["python", "train.py"], "mirrored-2", prove=False).outcome == "consistent"
