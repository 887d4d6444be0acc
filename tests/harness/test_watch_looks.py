"""What operations of a graph give is looked at by few operations beside them, and none is missed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.evidence.watched_step import WatchedStep, read_watched
from harness.recording.watch import Watch, WatchDone, WatchOrder, looks

# AutoGraph leaves a function as it is where the warnings of Python 3.13 about its use of `ast` are errors.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _watched(path: Path, times: int = 3) -> tuple[WatchedStep, int]:
    """What is seen of a function with a loop and a branch, and how many operations look."""
    import tensorflow as tf

    watch = Watch(WatchOrder(1, str(path)), "local:0", 1)

    @tf.function
    def step(x: Any) -> Any:
        y = tf.sin(x)
        for _ in tf.range(times):
            y = tf.cos(y) * x
        return tf.cond(tf.reduce_sum(y) > 0, lambda: tf.exp(y), lambda: tf.tanh(y))

    with watch.active():
        step(tf.constant([0.5, 0.25]))
        graph = step.get_concrete_function(tf.constant([0.5, 0.25])).graph
        with pytest.raises(WatchDone):
            watch.after_step(1)
    looking = sum(op.type in ("PyFunc", "EagerPyFunc") for op in graph.get_operations())
    return read_watched(path / "local-0.watched"), looking


def _seen(watched: WatchedStep, kind: str) -> list[int]:
    """How many values each operation of a kind gave."""
    found = [op for op in watched.ops if op.type == kind]
    return [sum(taken.tensor in op.outputs for taken in watched.values) for op in found]


@pytest.mark.full
def test_everything_in_a_graph_is_seen(tmp_path: Path) -> None:
    """Once for each time that it is computed, also in a loop and in a branch, by fewer operations than there are."""
    watched, looking = _watched(tmp_path)
    assert (_seen(watched, "Sin"), _seen(watched, "Cos")) == ([1], [3])
    assert sorted(_seen(watched, "Exp") + _seen(watched, "Tanh")) == [0, 1]
    assert looking <= 2  # of the six and more that are in the function itself, by their device


@pytest.mark.full
def test_arguments_are_seen(tmp_path: Path) -> None:
    """Those of a function that Python calls are there before its graph has what keeps operations in their order."""
    watched, _ = _watched(tmp_path)
    (sine,) = [op for op in watched.ops if op.type == "Sin"]
    (value,) = [taken.array.numpy().tolist() for taken in watched.values if taken.tensor in sine.inputs]
    assert value == [0.5, 0.25]


def test_what_the_harness_does_itself_is_not_seen(tmp_path: Path) -> None:
    """Also where it is carried out at once: the state of a run to which a reference is set is no update of a step."""
    import tensorflow as tf

    watch = Watch(WatchOrder(1, str(tmp_path)), "local:0", 1)
    variable = tf.Variable(1.0)
    with watch.active():
        variable.assign_add(2.0)
        with watch.silent():
            variable.assign(5.0)
        variable.assign_sub(3.0)
        with pytest.raises(WatchDone):
            watch.after_step(1)
    kinds = [op.type for op in read_watched(tmp_path / "local-0.watched").ops if op.type.startswith("Assign")]
    assert kinds == ["AssignAddVariableOp", "AssignSubVariableOp"]


def test_large_values_do_not_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a step's would all be kept until its end."""
    monkeypatch.setattr(looks, "TOGETHER_BYTES", 1)
    watched, looking = _watched(tmp_path)
    assert (_seen(watched, "Sin"), _seen(watched, "Cos")) == ([1], [3])
    assert looking > 5
