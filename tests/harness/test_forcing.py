"""Setting a reference to what a run recorded, in a real task: what is set, when, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, ClientTrace, Forced, Step, Variable, read_client
from harness.evidence.writing import TraceWriter
from harness.recording.client import Assignment, run_client
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import Cluster
from tests.harness._traces import client, step, variable

Follow = Callable[..., tuple[tuple[Step, ...], Forced]]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """Run a program on one device, set to a run of these steps; what it recorded, and what there is to say."""

    def run(program: Callable[[Any, Any], None], *steps: Step, noise: int | None = None, **counters: Any) -> Any:
        followed, traces, kept = (tmp_path / name for name in ("followed", "traces", "kept"))
        for folder in (followed, traces, kept):
            folder.mkdir()
        _write(followed / "worker-0.trace", client(*steps, **counters))
        case = strategy_case("default")
        assigned = Assignment(str(traces), str(kept), 7, noise, forced=str(followed / "worker-0.trace"))
        with Cluster(case.topology, timeout=60) as cluster:
            cluster.run(run_client, Program.of(program), case, assigned)
        found = read_client(traces / "local-0.trace")
        assert found.counters.forced is not None
        return found.steps, found.counters.forced

    return run


def _write(path: Path, trace: ClientTrace) -> None:
    """As a recorder does, which says before its first step whether it records only the ends of epochs."""
    writer = TraceWriter(path)
    writer.write(trace.header)
    writer.write(trace.counters)
    for found in trace.steps:
        writer.write(found)
    writer.write(trace.counters)
    writer.close()


def _values(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [{one.name: one.value.numpy().tolist() for one in found.variables or ()} for found in steps]


def test_each_step_begins_where_the_run_was(follow: Follow) -> None:
    """Variables of all kinds are set once they were recorded, shards and bfloat16 among them, by unique names."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf
        from tensorflow.python.distribute.sharded_variable import ShardedVariable

        plain = [tf.Variable([1.0], name="v"), tf.Variable([10.0], name="v")]
        coarse = tf.Variable([1.0], name="coarse", dtype=tf.bfloat16)
        count, flag = tf.Variable(0, name="count", dtype=tf.int64), tf.Variable([False], name="flag")
        shards = ShardedVariable([tf.Variable([[1.0, 2.0]], name="s"), tf.Variable([[3.0, 4.0]], name="s")], name="s")
        every = [*plain, coarse, count, flag, shards]
        for _ in range(3):
            for one in (*plain, coarse, count, *shards.variables):
                one.assign_add(tf.ones_like(one))
            record.step(variables=every)

    def run(k: int) -> Step:
        s = np.array([[k, 2], [3, 100 * k]], np.float32)
        coarse = Variable("coarse", (Array("bfloat16", (1,), memoryview(np.array([k / 2], np.float32).tobytes())),))
        plain = [
            variable("v", np.array([k * 7], np.float32)),
            variable("v", [np.array([k], np.float32)] * 2, "mirrored"),
        ]
        read = variable("count", [np.int64(1), np.int64(5)], "on_read", np.int64(6 * k))
        every = (*plain, coarse, read, variable("flag", np.array([True])), variable("s", s))
        return msgspec.structs.replace(step(k), variables=every)

    steps, forced = follow(program, *(run(k) for k in (1, 2, 3)))
    names = ["coarse", "count", "flag", "s"]
    assert [one.name for one in steps[0].variables or ()] == ["v", "v#2", *names]
    own = {"v": [2.0], "v#2": [11.0], "coarse": [2.0], "count": 1, "flag": [False], "s": [[2.0, 3.0], [4.0, 5.0]]}
    second = {"v": [8.0], "v#2": [2.0], "coarse": [1.5], "count": 7, "flag": [True], "s": [[2.0, 3.0], [4.0, 101.0]]}
    third = {"v": [15.0], "v#2": [3.0], "coarse": [2.0], "count": 13, "flag": [True], "s": [[3.0, 3.0], [4.0, 201.0]]}
    assert _values(steps) == [own, second, third]
    assert forced == Forced(steps=3, due=3)


def test_what_cannot_be_set_stays_and_is_said(follow: Follow) -> None:
    """Another shape or dtype, no such name, no variables at a step, no such step, values that are not finite."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        every = [tf.Variable([1.0], name=name) for name in ("shape", "dtype", "absent", "set")]
        for _ in range(4):
            record.step(variables=every)
            for one in every:
                one.assign_add([1.0])

    def run(k: int) -> Step:
        found = {
            "shape": np.array([5, 6], np.float32),
            "dtype": np.array([5], np.float64),
            "set": np.array([np.nan], np.float32),
        }
        return step(k, variables=found if k < 3 else None)

    steps, forced = follow(program, run(1), run(2), run(3))
    assert [found["absent"] for found in _values(steps)] == [[1.0], [2.0], [3.0], [4.0]]
    assert str(_values(steps)[1]) == "{'shape': [2.0], 'dtype': [2.0], 'absent': [2.0], 'set': [nan]}"
    assert (forced.steps, forced.due, forced.not_finite) == (2, 4, 1)
    assert forced.left == (
        "'shape': at step 1 it is float32 of shape (2,) in the run and float32 of shape (1,) in the reference",
        "'dtype': at step 1 it is float64 of shape (1,) in the run and float32 of shape (1,) in the reference",
        "'absent': the run did not record it at step 1",
        "all variables: after step 3 the run recorded none",
    )


def test_noise_comes_after_the_setting(follow: Follow) -> None:
    """What a step begins with is the run's value and rounding, what it records is its own."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        one = tf.Variable([1.0, 2.0], name="w")
        record.step(variables=[one])
        record.step(metrics={"w": tf.identity(one)})

    run = np.array([1024, 2048], np.float32)
    steps, _ = follow(program, step(1, variables={"w": run}), noise=101)
    (begun,) = steps[1].metrics or ()
    apart = abs(begun.parts[0].numpy() - run)
    assert (apart > 0).all()
    assert (apart < 1e-6 * run).all()


def test_what_a_program_keeps_outside_of_variables_goes_its_own_way(follow: Follow) -> None:
    """Nobody but the program can set a Python number, and no note can tell of it."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        one, total = tf.Variable([1.0], name="w"), 0.0
        for _ in range(2):
            total += float(one[0])
            record.step(variables=[one], metrics={"total": total})

    steps, forced = follow(program, *(step(k, variables={"w": np.array([8], np.float32)}) for k in (1, 2)))
    totals = [value.parts[0].numpy().tolist() for found in steps for value in found.metrics or ()]
    assert totals == [1.0, 9.0], "8 of the run's, and the reference's own 1"
    assert forced == Forced(steps=2, due=2)


@pytest.mark.parametrize("flavour", [pytest.param("keras", marks=pytest.mark.full), "tf_keras"])
def test_a_run_that_recorded_epochs_is_followed_at_their_ends(flavour: str, follow: Follow) -> None:
    """As under parameter servers: no batch within an epoch is touched, and the next epoch begins with the run's."""

    def program(strategy: Any, record: Any) -> None:
        import importlib

        import numpy as np

        keras = importlib.import_module(flavour)
        ones = np.ones((4, 1), np.float32)
        bias = keras.initializers.Constant(4.0)
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer=bias)])
        model.compile(optimizer=keras.optimizers.SGD(0.25), loss="mse")
        callbacks = [record.keras_callback(model)]
        # Each step takes the kernel half the way to zero.
        model.fit(ones, 0 * ones, batch_size=2, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)

    def name(flavour: str) -> str:
        return "sequential/dense/kernel" if flavour == "keras" else "dense/kernel"

    ends = [step(k, variables={name(flavour): np.array([[64.0 * k]], np.float32)}) for k in (1, 2)]
    steps, forced = follow(program, *ends, per_epoch=True)
    assert [found[name(flavour)] for found in _values(steps)] == [[[2.0]], [[1.0]], [[32.0]], [[16.0]]]
    assert (forced.steps, forced.due) == (2, 2)
    assert {text.partition(":")[0] for text in forced.left} <= {
        f"'{found}'" for found in _values(steps)[0] if found != name(flavour)
    }
    assert forced.unrecorded == {}
