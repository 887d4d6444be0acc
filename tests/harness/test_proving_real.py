"""Proofs of real programs under real strategies, in tasks of their own; none of them takes a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import prove, verify
from harness.proofs import PROVE_VARIABLE
from harness.recording.tracing.python_decisions import OTHERS
from simulator import Cluster, Topology
from tests._present import present
from tests.harness._real_around import around
from tests.harness._real_operations import problems


def _line(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {marker}"))


def _program(strategy: Any, record: Any, loss_of: Any) -> None:
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(15, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.ones([3, 2]) * 0.5, aggregation=tf.VariableAggregation.MEAN)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))

    @tf.function
    def train_step(batch: Any) -> Any:
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(tf.reduce_sum(tf.square(tf.matmul(x, w) - 1), 1))
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
            w.assign_sub(0.1 * gradient)
            return loss

        return strategy.reduce("SUM", strategy.run(step, (batch,)), axis=None)

    for batch in dataset:
        record.step(loss=train_step(batch), variables=[w])


def _right(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    _program(strategy, record, lambda losses: tf.reduce_sum(losses) / 8)


def _mean_of_means(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    count = strategy.num_replicas_in_sync
    _program(strategy, record, lambda losses: tf.reduce_mean(losses) / count)  # while even


def _mean_then_sum(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    _program(strategy, record, lambda losses: 1.0 * tf.reduce_mean(losses))  # a mean that is summed


@pytest.mark.parametrize("strategy", ["mirrored-2", pytest.param("multi_worker-2", marks=pytest.mark.full)])
def test_a_right_step_is_proved(strategy: str) -> None:
    """For every batch, under no condition."""
    proof = prove(_right, strategy)
    assert proof.status == "proved", str(proof)


@pytest.mark.full
def test_a_mean_of_means_is_right_while_shards_are_even() -> None:
    """Its own data has an uneven batch, so that its numbers are wrong; of the step that is the condition."""
    proof = prove(_mean_of_means, "mirrored-2")
    assert proof.status == "conditional", str(proof)
    assert [place.line for place in proof.conditions[0].places] == [_line("while even")]


@pytest.mark.full  # in the quick profile tests/harness/test_refuting.py refutes
def test_a_mean_that_is_summed_is_refuted() -> None:
    """With its line, and with the smallest batch that shows it."""
    proof = prove(_mean_then_sum, "mirrored-2")
    assert proof.status == "refuted", str(proof)
    assert proof.culprit is not None
    assert present(proof.culprit.place).line == _line("a mean that is summed")
    assert present(proof.culprit.counterexample).shards == (1, 1)


def _rows_out(strategy: Any, record: Any) -> None:
    """What each replica has is handed out of the function: its rows, and its part of the gradient."""
    import numpy as np
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable([0.5, 0.1, 0.2], aggregation=tf.VariableAggregation.SUM)
    rows = np.arange(48, dtype="float32").reshape(16, 3)
    data = tf.data.Dataset.from_tensor_slices((np.arange(16), rows)).batch(8)
    dataset = strategy.experimental_distribute_dataset(data)

    @tf.function
    def train_step(batch: Any) -> Any:
        def step(ids: Any, x: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.linalg.matvec(x, w) ** 2) / 8
            gradient = tape.gradient(loss, w)
            w.assign_sub(0.001 * gradient)
            return loss, gradient, ids

        return strategy.run(step, batch)

    for batch in dataset:
        loss, gradient, ids = train_step(batch)
        record.step(loss=loss, gradients={"w": gradient}, variables=[w], examples=ids)


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["default", "mirrored-1", "mirrored-2"])
def test_what_each_replica_hands_out_is_followed(strategy: str) -> None:
    """Of one replica all rows, its part of a sum and the whole are one and the same."""
    proof = prove(_rows_out, strategy)
    assert proof.status == "proved", str(proof)


@pytest.mark.full
def test_a_verdict_has_its_second_leg() -> None:
    """In its first line, and as data."""
    verdict = verify(_right, "mirrored-2", prove=True)
    assert verdict.proof is not None
    assert "right for every batch" in str(verdict).splitlines()[0]
    assert verdict.to_json()["proof"]["status"] == "proved"


@pytest.mark.full
def test_a_verdict_says_whether_its_data_met_the_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being asked; its last batch is uneven."""
    monkeypatch.delenv(PROVE_VARIABLE)
    verdict = verify(_mean_of_means, "mirrored-2")
    met = present(present(verdict.proof).conditions[0].met)
    assert (met.steps, met.broken, met.step, met.shares) == (2, 1, 2, (4, 3))


def _static_or_none(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    _program(strategy, record, lambda losses: tf.reduce_sum(losses) / (losses.shape[0] or 8))


def _by_the_trace(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    traces: list[int] = []

    def loss_of(losses: Any) -> Any:
        traces.append(1)
        return tf.reduce_sum(losses) / (8 if len(traces) <= strategy.num_replicas_in_sync else 4)

    _program(strategy, record, loss_of)


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (_static_or_none, "asks in Python for a length"),
        (_by_the_trace, "traced again, for another number of examples"),
    ],
)
def test_a_graph_that_is_not_the_programs_own_proves_nothing(program: Any, reason: str) -> None:
    """It is traced for any number of examples, and the program traces it for those that it has."""
    proof = prove(program, "mirrored-2")
    assert proof.status == "open", str(proof)
    assert any(reason in each for each in proof.reasons), str(proof)


def test_of_parameter_servers_nothing_is_claimed() -> None:
    """No task is started for it."""
    assert prove(_right, "parameter_server-1w1p").status == "open"


@pytest.mark.full
def test_rules_hold_for_operations_of_tensorflow() -> None:
    """Convolutions, pools, biases, entropies and normalisations, on uneven and empty shards; and what is heard."""
    # With oneDNN's kernels, which depend on the CPU, a convolution of no rows is wrong: a known issue of its own.
    environ = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    with Cluster(Topology(worker=1), timeout=120, env=environ) as cluster:
        found, compared = cluster.run(problems)["worker:0"].value
        heard = cluster.run(around)["worker:0"].value
    assert found == {}
    assert min(compared.values()) > 0, compared
    # In the same task, since starting one is what takes time.
    assert heard["numpy"][0] != heard["numpy"][1]
    assert heard["equal"][0] == heard["equal"][1]
    assert "another object" in heard["member"][1][0]
    assert heard["same member"] == [[], []]
    assert heard["before"] == ["loss", "loss"]
    assert heard["others"] == ([], [OTHERS])
    assert heard["decided"] == (True, [1])
