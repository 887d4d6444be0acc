"""Law `global_batch`: who tells TensorFlow of the batch of one replica trains with as many times the rate."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.evidence.averages import Average
from harness.evidence.trace import Array, ClientTrace, Counters, Header, RunTrace, Seen, Value
from harness.judging.laws import Case
from harness.judging.laws.global_batch import LAW
from harness.judging.tolerance import Exact


def _run(batch: int, losses: int, *, rows: int = 4, reduced: float = 2.0, clients: int = 2) -> RunTrace:
    """Processes of one replica; gradients of 1 in each leave their reduction as `reduced`."""

    def value(number: float) -> Value:
        return Value("w", (Array.of(np.array([number, number], np.float32)),))

    def client(number: int) -> ClientTrace:
        header = Header(f"worker:{number}", 0, f"multi_worker-{clients}", clients, 1, clients, 0, {})
        ids = tuple(range(rows * number, rows * (number + 1)))
        seen = Seen(index=1, at=0.0, examples=(ids,), gradients=(value(1.0),), reduced=(value(reduced),))
        return ClientTrace(header, seen=(seen,), counters=Counters(averages=(Average("a.py:3", batch, losses, 1),)))

    return RunTrace(tuple(map(client, range(clients))))


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (_run(4, 4), "broken"),
        (_run(7, 4), "broken"),
        (_run(8, 4), "held"),
        (_run(32, 4), "held"),  # the last batch of an epoch, or a part of what is accumulated
        (_run(4, 4, reduced=1.0), "not_judged"),  # a mean over replicas of their means
        (_run(4, 4, reduced=0.3), "not_judged"),  # of which nobody knows what it is
        (_run(4, 20), "not_judged"),  # of words, of which each example has several
        (_run(2, 2), "not_judged"),  # of some of the examples
    ],
)
def test_a_batch_that_is_too_small_is_found_where_replicas_add_up(run: RunTrace, status: str) -> None:
    """And where each has one loss of each example."""
    case = Case(run, run, Exact())
    assert LAW.concerns(case)
    judgement = LAW.judge(case)
    assert judgement.status == status
    if status == "broken":
        assert "a.py:3" in judgement.findings[0].text
        assert judgement.findings[0].expected == 8.0


def _train(strategy: Any, record: Any, *, batch: int, how: str) -> None:
    import tensorflow as tf

    batch = batch if how == "sum" else batch // strategy.num_replicas_in_sync

    x = np.random.default_rng(3).normal(size=(24, 3)).astype(np.float32)
    with strategy.scope():
        w = tf.Variable(tf.ones([3, 1]))

    def replica_step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((x @ w - 1.0) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch)  # the batch
        gradient = tf.distribute.get_replica_context().all_reduce(how, tape.gradient(loss, w))
        w.assign_sub(0.1 * gradient)
        return loss

    step = tf.function(lambda x: strategy.run(replica_step, (x,)))
    for batches in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        step(batches)
        record.step(variables=[w])


@pytest.mark.parametrize(
    ("batch", "how", "outcome"),
    [
        (4, "sum", "inconsistent"),
        pytest.param(8, "sum", "consistent", marks=pytest.mark.full),
        pytest.param(8, "mean", "consistent", marks=pytest.mark.full),
    ],
)
def test_its_line_is_named(batch: int, how: str, outcome: str) -> None:
    """No reference shows it: one device that is told so computes the same."""
    verdict = verify(partial(_train, batch=batch, how=how), "mirrored-2", explain=True, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    if outcome == "inconsistent":
        assert {law.law for law in verdict.judgements if law.status == "broken"} == {"global_batch"}
        assert verdict.culprit is not None
        assert Path(verdict.culprit.file).name == Path(__file__).name
        assert verdict.culprit.source.endswith("# the batch")
