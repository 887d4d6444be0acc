"""What the workers of a cluster draw without a seed is another number in each, until the program sets one."""

from __future__ import annotations

from typing import Any

import pytest

from harness import Program, verify
from harness.judging.conditions import EQUAL_DRAWS
from harness.recording.default_seeds import own_shuffles
from harness.subject.strategies import strategy_case
from simulator import Cluster

_CASE = strategy_case("mirrored-2")


def _drawn_by(client: int, seed: int | None = None, *, more: bool = True) -> dict[str, Any]:
    """In a task: an order of a dataset and noise in it, and what is drawn on the host and in replicas."""
    import tensorflow as tf

    tf.random.set_seed(20)  # as Lockstep does before the program
    with own_shuffles(client, client) as drawn:
        if seed is not None:
            tf.random.set_seed(seed)
        data = tf.data.Dataset.range(64).shuffle(64)
        order = [int(each) for each in data]
        noisy = [float(each) for each in tf.data.Dataset.range(3).map(lambda _: tf.random.uniform([]))]
        before = drawn.outside
        host = float(tf.random.uniform([])) if more else None
        strategy = _CASE.build()
        noise = strategy.run(lambda: tf.random.uniform([4])) if more else None
        parts = [] if noise is None else [each.numpy().tolist() for each in strategy.experimental_local_results(noise)]
        twice = tf.function(lambda: (tf.random.uniform([4]), tf.random.uniform([4])))
        both = [each.numpy().tolist() for each in twice()]
    return {
        "order": order,
        "noisy": noisy,
        "host": host,
        "replicas": parts,
        "both": both,
        "counted": (drawn.orders, before, drawn.outside),
    }


def _in_a_task() -> dict[str, dict[str, Any]]:
    return {
        "first": _drawn_by(0),
        "second": _drawn_by(1),
        "seeded": _drawn_by(0, seed=7),
        "seeded, second": _drawn_by(1, seed=7),
    }


@pytest.fixture(scope="module")
def drawn() -> dict[str, dict[str, Any]]:
    """What two workers draw, with and without a seed of the program's."""
    with Cluster(_CASE.topology, timeout=60) as cluster:
        return cluster.run(_in_a_task)["local:0"].value  # type: ignore[no-any-return]


@pytest.mark.parametrize("what", ["order", "host", "replicas"])
def test_workers_draw_apart_until_the_program_sets_a_seed(drawn: dict[str, dict[str, Any]], what: str) -> None:
    """Nobody seeds the workers of a cluster alike but the program itself."""
    assert drawn["first"][what] != drawn["second"][what]
    assert drawn["seeded"][what] == drawn["seeded, second"][what]


def test_replicas_of_all_workers_draw_apart(drawn: dict[str, dict[str, Any]]) -> None:
    """Four replicas, of two workers, draw four times."""
    parts = [tuple(part) for worker in ("first", "second") for part in drawn[worker]["replicas"]]
    assert len(set(parts)) == len(parts) == 4


def test_no_draw_is_the_next_one_of_another_worker(drawn: dict[str, dict[str, Any]]) -> None:
    """In a graph TensorFlow numbers seeds one by one, and the first draw of one worker is none of the other's."""
    both = [tuple(each) for worker in ("first", "second") for each in drawn[worker]["both"]]
    assert len(set(both)) == len(both) == 4


def test_noise_of_datasets_stays_alike(drawn: dict[str, dict[str, Any]]) -> None:
    """It tells which example one device has in its place."""
    assert drawn["first"]["noisy"] == drawn["second"]["noisy"]


def test_the_seed_of_a_dataset_is_no_number_that_is_drawn(drawn: dict[str, dict[str, Any]]) -> None:
    """It counts as an order, and excuses no part of an example; what the host draws does."""
    assert drawn["first"]["counted"] == (0, 0, 0)
    assert drawn["second"]["counted"] == (1, 0, 3)


def masked(strategy: Any, record: Any, seed: int | None = None) -> None:
    """A step whose examples are masked by TensorFlow's numbers, without a seed of the draw's own."""
    import tensorflow as tf

    if seed is not None:
        tf.random.set_seed(seed)
    with strategy.scope():
        w = tf.Variable(tf.fill([4, 1], 0.1), aggregation=tf.VariableAggregation.SUM)
    features = tf.random.stateless_normal([24, 4], (1, 2))
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(features).batch(8))

    def replica_step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            mask = tf.cast(tf.random.uniform(tf.shape(rows)) < 0.5, tf.float32)
            losses = tf.reduce_sum((rows * mask @ w - 1.0) ** 2, axis=1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
        w.assign_sub(0.05 * tape.gradient(loss, w))
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(replica_step, (batch,)), axis=None)

    for batch in data:
        record.step(loss=step(batch), variables=[w])


def masked_by_one_seed(strategy: Any, record: Any) -> None:
    """The same, and each process sets the same seed."""
    masked(strategy, record, seed=1)


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["multi_worker-2", "mirrored-2"])
def test_masks_that_a_seed_of_each_process_makes_equal_are_told(strategy: str) -> None:
    """A condition under several workers: one process draws for its replicas one after the other."""
    assert not verify(Program.of(masked), strategy).conditions
    verdict = verify(Program.of(masked_by_one_seed), strategy)
    assert verdict.outcome == "consistent", str(verdict)
    equal = [each.code for each in verdict.conditions] == [EQUAL_DRAWS]
    assert equal == (strategy == "multi_worker-2"), str(verdict)
