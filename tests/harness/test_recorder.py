"""`record` in real tasks: what a program hands over is what the trace holds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.evidence.trace import ClientTrace, Final, RunTrace, Step, Value, Variable, merge, read_client
from harness.recording.client import Assignment, run_client
from harness.subject.program import Program
from harness.subject.strategies import strategy_case
from simulator import Cluster, RunFailed, Topology
from tests._present import present

Observe = Callable[..., RunTrace]


@pytest.fixture
def observe(tmp_path: Path) -> Observe:
    """Run a program under a strategy, without judging it, and read the traces."""

    def run(program: Callable[[Any, Any], None], strategy: str = "default") -> RunTrace:
        case = strategy_case(strategy)
        traces, kept = tmp_path / "traces", tmp_path / "kept"
        for folder in (traces, kept):
            folder.mkdir(exist_ok=True)
        with Cluster(case.topology, timeout=60) as cluster:
            cluster.run(run_client, Program.of(program), case, Assignment(str(traces), str(kept), seed=7))
        return merge([read_client(path) for path in traces.glob("*.trace")])

    return run


def _numbers(value: Value | None) -> list[Any]:
    assert value is not None
    return [part.numpy().tolist() for part in value.parts]


def _only(run: RunTrace) -> ClientTrace:
    (client,) = run.clients
    return client


def _variables(record: Step | Final | None) -> dict[str, Variable]:
    assert record is not None
    return {variable.name: variable for variable in present(record.variables)}


def _values(found: tuple[Value, ...] | None) -> dict[str, list[Any]]:
    return {value.name: _numbers(value) for value in found or ()}


def test_values_come_as_tensors_arrays_numbers_metrics_and_slices(observe: Observe) -> None:
    """Each kind of value is captured densely, in its dtype, under its name; what is None is left out."""

    def program(strategy: Any, record: Any) -> None:
        import keras
        import tensorflow as tf
        import tf_keras

        mean, sums = keras.metrics.Mean(), tf_keras.metrics.Sum()
        mean.update_state([1.0, 2.0])
        sums.update_state([1.0, 2.0])
        record.step(
            loss=tf.constant(0.5),
            gradients=[
                tf.constant([1.0, 2.0]),
                None,
                tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([2, 0, 2]), tf.constant([3, 1])),
            ],
            metrics={"mean": mean, "sum": sums, "none": None, "float": 1.5, "half": tf.constant(2.5, tf.bfloat16)},
            examples=[3, 1, 2],
        )
        record.final(predictions=tf.ragged.constant([[[1.0], [2.0, 3.0]], []]))

    client = _only(observe(program))
    (ragged,) = (part for value in present(client.final).predictions or () for part in value.parts)
    assert (ragged.numpy().tolist(), ragged.rows) == ([1.0, 2.0, 3.0], ((2, 0), (1, 2)))
    (step,) = client.steps
    assert step.loss is not None
    assert (_numbers(step.loss), step.loss.per_replica, step.loss.parts[0].dtype) == ([0.5], False, "float32")
    assert _values(step.gradients) == {"gradient[0]": [[1.0, 2.0]], "gradient[2]": [[[2.0], [0.0], [5.0]]]}
    assert _values(step.metrics) == {"mean": [1.5], "sum": [3.0], "float": [1.5], "half": [2.5]}
    assert [value.parts[0].dtype for value in step.metrics or ()][-1] == "bfloat16"
    assert step.examples == ((3, 1, 2),)
    assert step.variables is None


def test_per_replica_values_keep_their_parts(observe: Observe) -> None:
    """A PerReplica loss or gradient has one part a replica, a reduced one has one; examples stay apart by replica."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        context = tf.distribute.get_replica_context

        def replica_step() -> Any:
            return tf.cast(context().replica_id_in_sync_group, tf.float32) + 1.0

        losses = strategy.run(replica_step)
        ids = strategy.experimental_distribute_values_from_function(
            lambda value: tf.range(2 * value.replica_id_in_sync_group)
        )
        record.step(loss=losses, gradients={"w": losses}, examples=ids)
        record.step(loss=strategy.reduce("SUM", losses, axis=None))
        record.final(predictions=losses)

    client = _only(observe(program, "mirrored-3"))
    first, second = client.steps
    assert first.loss is not None
    assert (first.loss.per_replica, _numbers(first.loss)) == (True, [1.0, 2.0, 3.0])
    assert _values(first.gradients) == {"w": [1.0, 2.0, 3.0]}
    assert first.examples == ((), (0, 1), (0, 1, 2, 3))
    assert second.loss is not None
    assert (second.loss.per_replica, _numbers(second.loss)) == (False, [6.0])
    assert _values(present(client.final).predictions) == {"predictions": [1.0, 2.0, 3.0]}
    assert (client.header.replicas, client.header.local_replicas, client.header.seed) == (3, 3, 7)


def test_every_copy_of_a_mirrored_variable_is_captured(observe: Observe) -> None:
    """A copy that drifted is seen, and the aggregate of an on-read variable is its value, its copies kept."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf

        with strategy.scope():
            w = tf.Variable([1.0, 2.0], name="w")
            seen = tf.Variable(
                0.0,
                name="seen",
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )

        def replica_step() -> None:
            seen.assign_add(1.0 + tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32))

        strategy.run(replica_step)
        strategy.experimental_local_results(w)[1].assign([1.0, 3.0])
        record.step(variables={"weights": w, "count": seen})
        record.final(variables=[w, [seen]])

    client = _only(observe(program, "mirrored-2"))
    found = _variables(client.steps[0])
    weights, count = found["weights"], found["count"]
    assert weights.kind == "mirrored"
    assert [copy.numpy().tolist() for copy in weights.copies] == [[1.0, 2.0], [1.0, 3.0]]
    assert count.kind == "on_read"
    assert [float(copy.numpy()) for copy in count.copies] == [1.0, 2.0]
    assert float(count.value.numpy()) == 3.0
    assert list(_variables(client.final)) == ["w", "seen"]


def test_keras_variables_of_both_kinds_are_captured_with_the_optimizers(observe: Observe) -> None:
    """Model and optimizer variables of Keras 3 and tf_keras have distinct names and a copy for every replica."""

    def program(strategy: Any, record: Any) -> None:
        import keras
        import tf_keras

        for flavour in (keras, tf_keras):
            with strategy.scope():
                model = flavour.Sequential([flavour.Input((3,)), flavour.layers.Dense(2), flavour.layers.Dense(2)])
                optimizer = flavour.optimizers.Adam()
                optimizer.build(model.trainable_variables)
            slots = optimizer.variables
            record.step(variables=[model.variables, slots() if callable(slots) else slots])

    keras3, keras2 = _only(observe(program, "mirrored-2")).steps
    for step in (keras3, keras2):
        found = _variables(step)
        kernels = [variable for variable in found.values() if variable.copies[0].shape == (3, 2)]
        assert len(kernels) == 3  # the kernel and Adam's two slots
        assert {variable.kind for variable in kernels} == {"mirrored"}
        assert {len(variable.copies) for variable in kernels} == {2}
        assert any("iteration" in name for name in found)
        assert len(found) == len(step.variables or ()) > 12


def test_sharded_variables_are_captured_whole(observe: Observe) -> None:
    """A variable split over two parameter servers is one array again, given whole or shard by shard."""

    def program(strategy: Any, record: Any) -> None:
        import numpy as np
        import tensorflow as tf

        with strategy.scope():
            w = tf.Variable(np.arange(6.0).reshape(3, 2), name="w")
        assert len(w.variables) == 2
        record.step(variables=[w])
        record.step(variables=w.variables)

    for step in _only(observe(program, "parameter_server-1w2p:fixed_shards")).steps:
        (variable,) = (step.variables or ())[:1]
        assert (variable.name, len(variable.copies)) == ("w", 1)
        assert variable.value.numpy().tolist() == np.arange(6.0).reshape(3, 2).tolist()


def test_names_alone_make_no_shards(observe: Observe) -> None:
    """Mirrored variables and Keras layers may be called part_0 and part_1: every replica's copy is captured."""

    def program(strategy: Any, record: Any) -> None:
        import keras
        import tensorflow as tf

        with strategy.scope():
            plain = [tf.Variable([1.0], name=f"w/part_{number}") for number in range(2)]
            layers = [keras.layers.Dense(1, name=f"part_{number}") for number in range(2)]
            keras.Sequential([keras.Input((1,)), *layers])
        variables = [*plain, *(layer.kernel for layer in layers)]
        for variable in plain:
            strategy.experimental_local_results(variable)[1].assign([-99.0])
        record.step(variables=variables)

    found = _variables(_only(observe(program, "mirrored-2")).steps[0])
    assert list(found) == ["w/part_0", "w/part_1", "sequential/part_0/kernel", "sequential/part_1/kernel"]
    assert {(variable.kind, len(variable.copies)) for variable in found.values()} == {("mirrored", 2)}
    assert [found["w/part_1"].copies[replica].numpy().tolist() for replica in range(2)] == [[1.0], [-99.0]]


def test_shards_are_what_tensorflow_says(observe: Observe) -> None:
    """In any order, with the slots of a legacy optimizer; a name alone makes no shard here either."""

    def program(strategy: Any, record: Any) -> None:
        import numpy as np
        import tensorflow as tf
        import tf_keras

        with strategy.scope():
            w = tf.Variable(np.arange(6.0).reshape(3, 2), name="w")
            other = [tf.Variable([float(number)], name=f"b/part_{number}") for number in range(2)]
            optimizer = tf_keras.optimizers.legacy.SGD(0.5, momentum=0.5)
        optimizer.apply_gradients([(tf.ones_like(shard), shard) for shard in w.variables])
        slots = [optimizer.get_slot(shard, "momentum") for shard in w.variables]
        record.step(variables=[w.variables[1], other[0], w.variables[0], *slots, other[1], w])

    found = _variables(_only(observe(program, "parameter_server-1w2p:fixed_shards")).steps[0])
    assert {name: variable.value.shape for name, variable in found.items()} == {
        "w": (3, 2),
        "b/part_0": (1,),
        "SGD/w/momentum": (3, 2),
        "b/part_1": (1,),
        "w#2": (3, 2),
    }
    assert found["w"].value.numpy().tolist() == found["w#2"].value.numpy().tolist()
    assert found["w"].value.numpy().tolist() == (np.arange(6.0).reshape(3, 2) - 0.5).tolist()


def test_a_callback_records_each_batch_and_the_end(observe: Observe) -> None:
    """`fit` gives one step a batch with loss, metrics and variables, and a final that the program's own is added to."""

    def program(strategy: Any, record: Any) -> None:
        import keras
        import numpy as np

        with strategy.scope():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse", metrics=["mae"])
        x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
        model.fit(
            x, y, batch_size=4, epochs=2, verbose=0, shuffle=False, validation_data=(x, y),
            callbacks=[record.keras_callback(model)],
        )  # fmt: skip
        record.final(predictions=model.predict(x, verbose=0), metrics={"mine": 1.0})

    client = _only(observe(program, "mirrored-2"))
    assert [(step.index, step.epoch, step.epoch_end) for step in client.steps] == [
        (1, 0, False),
        (2, 0, True),
        (3, 1, False),
        (4, 1, True),
    ]
    assert all(step.loss is not None and set(_values(step.metrics)) == {"mae"} for step in client.steps)
    assert client.final is not None
    assert {"val_loss", "val_mae", "mine"} <= set(_values(client.final.metrics))
    assert list(_values(client.final.predictions)) == ["predictions"]
    assert set(_variables(client.final)) == set(_variables(client.steps[-1]))
    assert any("momentum" in name for name in _variables(client.final))


def test_a_final_before_the_callbacks_is_kept(observe: Observe) -> None:
    """What the program reports while `fit` still runs is not lost when the callback reports the end."""

    def program(strategy: Any, record: Any) -> None:
        import keras
        import numpy as np

        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        early = keras.callbacks.LambdaCallback(
            on_train_end=lambda logs: record.final(predictions=[1.0], metrics={"mine": 2.0})
        )
        model.fit(
            np.ones((4, 2)), np.ones((4, 1)), batch_size=4, verbose=0,
            callbacks=[early, record.keras_callback(model)],
        )  # fmt: skip

    final = present(_only(observe(program)).final)
    assert _values(final.predictions) == {"predictions[0]": [1.0]}
    assert _values(final.metrics) == {"mine": [2.0]}
    assert len(_variables(final)) >= 2


def test_fit_under_parameter_servers_records_epochs(observe: Observe) -> None:
    """Where Keras allows no batch hooks, a step is an epoch, and the trace says so."""

    def program(strategy: Any, record: Any) -> None:
        import tensorflow as tf
        import tf_keras

        with strategy.scope():
            model = tf_keras.Sequential([tf_keras.Input((2,)), tf_keras.layers.Dense(1)])
            model.compile(optimizer=tf_keras.optimizers.SGD(0.5), loss="mse")
        data = tf.data.Dataset.from_tensors((tf.ones((4, 2)), tf.ones((4, 1)))).repeat()
        model.fit(data, epochs=2, steps_per_epoch=2, verbose=0, callbacks=[record.keras_callback(model)])

    client = _only(observe(program, "parameter_server-1w1p"))
    assert client.header.task == "chief:0"
    assert client.counters.per_epoch
    assert client.counters.scheduled == 4
    assert [(step.epoch, step.epoch_end) for step in client.steps] == [(0, True), (1, True)]
    assert _numbers(client.steps[0].loss)
    assert len(_variables(client.final)) >= 3


def test_every_client_leaves_a_trace_and_shares_the_directory(observe: Observe) -> None:
    """Each worker records under its own name; `record.directory` exists and is one folder for all."""

    def program(strategy: Any, record: Any) -> None:
        (record.directory / os.environ["LOCKSTEP_TASK"].replace(":", "-")).touch()
        record.step(loss=1.0)
        record.step(metrics={"files": sum(path.name.startswith("worker") for path in record.directory.iterdir())})

    run = observe(program, "multi_worker-2")
    assert [client.header.task for client in run.clients] == ["worker:0", "worker:1"]
    assert {
        (client.header.clients, client.header.replicas, client.header.local_replicas) for client in run.clients
    } == {(2, 2, 1)}
    assert {count for client in run.clients for (count,) in _values(client.steps[1].metrics).values()} <= {1, 2}


@pytest.mark.parametrize("steps", [1, 3])
def test_a_trace_survives_a_kill(steps: int, observe: Observe, tmp_path: Path) -> None:
    """After SIGKILL each step that was recorded before is readable, and there is no end."""

    def program(strategy: Any, record: Any) -> None:
        for number in range(steps):
            record.step(loss=float(number), variables={})
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RunFailed, match="SIGKILL"):
        observe(program)
    client = read_client(tmp_path / "traces" / "local-0.trace")
    assert [_numbers(step.loss) for step in client.steps] == [[float(number)] for number in range(steps)]
    assert client.final is None


def test_a_second_final_is_an_error(observe: Observe) -> None:
    """A run has one end."""

    def program(strategy: Any, record: Any) -> None:
        record.final(metrics={"m": 1})
        record.final(metrics={"m": 2})

    with pytest.raises(RunFailed, match=r"record\.final was called twice"):
        observe(program)


@pytest.mark.parametrize("examples", [[0.5, 1.0], ["a"]])
def test_examples_that_are_no_integers_are_an_error(examples: list[Any], observe: Observe) -> None:
    """An id that would have to be rounded could hide a wrong example behind a right one."""

    def program(strategy: Any, record: Any) -> None:
        record.step(examples=examples)

    with pytest.raises(RunFailed, match=r"as examples.*; accepted are integer ids"):
        observe(program)


def test_a_callback_for_something_else_is_an_error(observe: Observe) -> None:
    """Only models of one of the two Kerases have callbacks."""

    def program(strategy: Any, record: Any) -> None:
        record.keras_callback(object())

    with pytest.raises(RunFailed, match="object is neither a Keras 3 nor a tf_keras model"):
        observe(program)


def test_a_client_finds_imported_what_it_needs() -> None:
    """The forkserver has imported it: otherwise each task would take as long for that as for its first op."""

    def imported() -> list[str]:
        import sys

        return [
            name
            for name in ("harness.recording.client", "harness.recording.recorder", "harness.recording.noise")
            if name in sys.modules
        ]

    with Cluster(Topology(), timeout=60) as cluster:
        assert len(cluster.run(imported)["local:0"].value) == 3
