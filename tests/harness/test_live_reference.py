"""A reference that follows a run while it goes on."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.evidence.steps import EvidenceWriter, LiveProcesses, RunEvidence, Segment, StepEvidence
from harness.judging.verdict import Verdict
from harness.recording.file_access import _Touched
from harness.running import live_reference, reference, reference_runs
from simulator import Cluster, Topology
from tests.harness._beside import trains, writes

_SCRIPT = """
import sys
import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
each = int(sys.argv[1])
x = np.random.default_rng(0).normal(size=(48, 6)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(48).batch(each * strategy.num_replicas_in_sync)
with strategy.scope():
    layers = [keras.Input((6,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    model = keras.Sequential([*layers, keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(data, epochs=1, verbose=0)
if len(sys.argv) > 2:
    model.save("model.keras")
"""


def eager(strategy: Any, record: Any) -> None:
    """Nothing of it is a graph."""
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(tf.ones([4, 2]), name="weight")

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.nn.dropout(x, 0.25) @ weight)) / 8
        (gradient,) = tf.distribute.get_replica_context().all_reduce("SUM", [tape.gradient(loss, weight)])
        weight.assign_sub(0.01 * gradient)
        return loss

    data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([32, 4], [3, 4])).batch(8)
    for x in strategy.experimental_distribute_dataset(data):
        record.step(loss=strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None), variables=[weight])


def of_each_batch(strategy: Any, record: Any, *, wrong: bool = False) -> None:
    """Of each replica's batch the statistics; wrong ones forget to reduce."""
    import keras
    import tensorflow as tf

    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(), keras.layers.Dense(2)])
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.build(model.trainable_variables)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.square(model(x, training=True) - 1), 1)
            loss = tf.reduce_mean(losses) if wrong else tf.nn.compute_average_loss(losses, global_batch_size=8)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(x: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None)

    data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([32, 4], [3, 4])).batch(8)
    for x in strategy.experimental_distribute_dataset(data):
        record.step(loss=step(x), variables=model.trainable_variables)


def by_each_worker(strategy: Any, record: Any) -> None:
    """Wrong: each replica has a batch of the global size, which one replica has as well."""
    import tensorflow as tf

    with strategy.scope():
        weight = tf.Variable(tf.ones([4, 2]), name="weight")

    def replica(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(x @ weight)) / 8
        (gradient,) = tf.distribute.get_replica_context().all_reduce("SUM", [tape.gradient(loss, weight)])
        weight.assign_sub(0.01 * gradient)

    step = tf.function(lambda x: strategy.run(replica, args=(x,)))
    data = tf.data.Dataset.from_tensor_slices(tf.random.stateless_normal([32, 4], [3, 4])).batch(4, drop_remainder=True)
    for x in strategy.distribute_datasets_from_function(lambda _: data):
        step(x)
        record.step(variables=[weight])


@pytest.fixture
def said_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Verdict, list[bool]]]:
    """Verify, on a machine that is busy or not: the verdict, and of each reference whether it went beside the run."""
    did: list[bool] = []
    followed = reference.ReferenceRuns._has_followed

    def noted(runs: Any, *of: Any, **options: Any) -> bool:
        did.append(followed(runs, *of, **options))
        return did[-1]

    monkeypatch.setattr(reference.ReferenceRuns, "_has_followed", noted)

    def verified(program: Any, busy: bool, strategy: str = "mirrored-2") -> tuple[Verdict, list[bool]]:
        did.clear()
        monkeypatch.setattr(live_reference, "is_busy", lambda: busy)
        return verify(program, strategy, explain=False, prove=False), list(did)

    return verified


def _numbers(verdict: Verdict) -> list[Any]:
    return [(law.law, law.status, law.worst_ratio, law.compared) for law in verdict.judgements]


@pytest.mark.parametrize(("program", "strategy"), [
    pytest.param(trains, "mirrored-2", marks=pytest.mark.full),
    (of_each_batch, "mirrored-2"),
    pytest.param(eager, "mirrored-2", marks=pytest.mark.full),
    pytest.param(trains, "multi_worker-2", marks=pytest.mark.full),
])  # fmt: skip
def test_it_says_what_one_says_that_is_made_later(said_of: Any, program: Any, strategy: str) -> None:
    """Number by number; and it is not made twice."""
    verdict, did = said_of(program, False, strategy)
    assert (verdict.outcome, did) == ("consistent", [True])
    later, did = said_of(program, True, strategy)
    assert did == [False]
    assert _numbers(later) == _numbers(verdict)


@pytest.mark.full
def test_a_mistake_is_found(said_of: Any) -> None:
    """A mean of each replica, summed."""
    verdict, did = said_of(functools.partial(of_each_batch, wrong=True), False)
    assert (verdict.outcome, did[0]) == ("inconsistent", True)


@pytest.mark.full
def test_a_graph_that_was_built_for_other_examples_is_built_again(said_of: Any) -> None:
    """One replica reads 4 examples itself where the run has 4 for each: who has built for these gives up."""
    verdict, did = said_of(by_each_worker, False)
    assert (verdict.outcome, did[0]) == ("inconsistent", False), str(verdict)
    later, _ = said_of(by_each_worker, True)
    assert _numbers(later) == _numbers(verdict)


@pytest.mark.full
@pytest.mark.parametrize("saves", [False, True])
def test_a_script_is_followed(said_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saves: bool) -> None:
    """By `fit` of Keras; what it saves it writes into a view of its own. Each run is made once."""
    (tmp_path / "train.py").write_text(_SCRIPT)
    monkeypatch.chdir(tmp_path)
    begun: list[tuple[Path, str]] = []
    started = reference_runs.Runs._started

    def noted(runs: Any, names: Any, stack: Any) -> Any:
        begun.extend((runs.directory, name) for name in names)
        return started(runs, names, stack)

    monkeypatch.setattr(reference_runs.Runs, "_started", noted)
    verdict, did = said_of(["python", "train.py", "6", *(["saves"] if saves else [])], False)
    assert (verdict.outcome, did[0]) == ("consistent", True), str(verdict)
    assert {"plain", "noise-101"} <= {name for _, name in begun}
    assert sorted(begun) == sorted(set(begun))
    assert not (tmp_path / "model.keras").exists()


@pytest.mark.full
def test_of_a_function_that_writes_files_it_is_made_again(said_of: Any, here: Path) -> None:
    """Nobody could tell what it had read."""
    verdict, did = said_of(writes, False)
    assert (verdict.outcome, did) == ("consistent", [False])


def _evidence(tmp_path: Path, seconds: float) -> tuple[EvidenceWriter, RunEvidence, Path]:
    over = tmp_path / "over"
    live_ = LiveProcesses(str(over), replicas=2, local_replicas=2, seconds=seconds)
    return EvidenceWriter(tmp_path / "steps"), RunEvidence([Segment((str(tmp_path / "steps"),), live=live_)]), over


def test_a_step_is_there_when_nothing_is_added_to_it(tmp_path: Path) -> None:
    """When the next one has begun, or the run has ended; before, whoever asks waits."""
    writer, run, over = _evidence(tmp_path, 0.05)
    assert not run.is_settled(1)
    writer.begin(1)
    writer.publish(StepEvidence(1))
    with pytest.raises(TimeoutError, match=r"step 1 of the run that is followed was not there after 0\.05 s"):
        run.step(1)
    writer.publish(StepEvidence(1, done=False))
    writer.begin(2)
    assert run.step(1).is_there
    assert not run.is_settled(2)
    over.touch()
    assert not run.step(2).is_there


def test_what_would_change_files_waits(tmp_path: Path) -> None:
    """Whether a file is written or removed, or another program started; what happens to files of its own does not."""
    waited: list[str] = []
    own = tmp_path / "own"
    own.mkdir()
    touched = _Touched(tmp_path / "one.files", [str(own)], lambda: waited.append("waited"))
    events: list[tuple[str, tuple[Any, ...], int]] = [
        ("open", (str(tmp_path / "a"), "r", 0), 0),
        ("open", (str(tmp_path / "a"), "w", 0), 1),
        ("open", (str(own / "a"), "w", 0), 0),
        ("os.remove", (str(tmp_path / "a"), -1), 1),
        ("os.remove", (str(own / "a"), -1), 0),
        ("shutil.rmtree", (str(tmp_path / "saves"), None), 1),
        ("os.truncate", (3, 0), 0),
        ("subprocess.Popen", ("ls", ["ls"], None, None), 1),
    ]
    for event, arguments, times in events:
        waited.clear()
        touched.hear(event, arguments)
        assert len(waited) == times, event


def test_nobody_follows_where_no_core_is_idle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Then the reference is made when the run has ended, as it has always been."""
    from harness.subject.program import Program
    from harness.subject.strategies import strategy_case

    monkeypatch.setattr(live_reference, "is_busy", lambda: True)
    of = (Program.of(trains), strategy_case("mirrored-2"), tmp_path)
    with contextlib.ExitStack() as stack:
        assert stack.enter_context(live_reference.live_reference(*of, seed=1, timeout=9.0, noisy=True)) is None


def _what_waits() -> dict[str, bool]:
    """Of what may happen while a graph is built, whether the evidence of its step is waited for."""
    from types import SimpleNamespace

    import tensorflow as tf

    from harness.recording.witness.executed import active

    waited: list[bool] = []
    steps: Any = SimpleNamespace(waits=True, computes=lambda: waited.append(True))
    registry = SimpleNamespace(is_making=False)
    gathered: Any = SimpleNamespace(steps=steps, registry=registry, threads=SimpleNamespace(is_main=True))
    variable, function = tf.Variable([1.0, 2.0]), tf.function(lambda: tf.constant(1.0) + 1.0)

    def made() -> None:
        registry.is_making = True
        tf.Variable(3.0)
        registry.is_making = False

    happens: dict[str, Callable[[], Any]] = {
        "a graph is built": function.get_concrete_function,
        "it is run": function,
        "a variable is read": variable.numpy,
        "a variable is changed": lambda: variable.assign([2.0, 3.0]),
        "a variable is made": made,
        "a number is computed": lambda: tf.constant(1.0) + 2.0,
    }
    found = {}
    with active(gathered):
        for name, happening in happens.items():
            waited.clear()
            happening()
            found[name] = bool(waited)
    return found


def test_the_evidence_is_waited_for_before_it_could_matter() -> None:
    """When the graph is run, or Python asks for a variable while it is built; and not before."""
    with Cluster(Topology(worker=1)) as cluster:
        found = cluster.run(_what_waits)["worker:0"].value
    assert [name for name, waits in found.items() if waits] == [
        "it is run",
        "a variable is read",
        "a variable is changed",
    ]
