"""Verify a training in a pytest suite: `pytest examples/test_my_training.py`."""

import pytest

from harness import verify


def train(strategy, record):
    """Add up the numbers from 0 to 63, sixteen at a time, as if it were training."""
    import tensorflow as tf

    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(64).batch(16))
    with strategy.scope():
        total = tf.Variable(0, dtype=tf.int64, name="total", aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def step(ids):
        strategy.run(lambda ids: total.assign_add(tf.reduce_sum(ids)), args=(ids,))

    for ids in dataset:
        step(ids)
        record.step(variables=[total], examples=ids)
    record.final(variables=[total])


@pytest.mark.strategies("mirrored-2", "multi_worker-2", full=("mirrored-4", "multi_worker-4"))
def test_training_is_consistent(strategy):
    """The same numbers under every strategy; an assertion that fails prints the whole verdict."""
    assert verify(train, strategy, tier="exact")


@pytest.mark.cluster(worker=2, timeout=60)
def test_workers_know_each_other(cluster):
    """The fixture is a started cluster of the marked shape."""

    def tf_config():
        import json
        import os

        return json.loads(os.environ["TF_CONFIG"])

    result = cluster.run(tf_config)
    assert len(result["worker:1"].value["cluster"]["worker"]) == 2


@pytest.mark.strategies("mirrored-2")
@pytest.mark.requires(gpus=2)
def test_on_two_gpus(strategy):
    """Skipped, with the reason, on a machine with fewer GPUs; a failure under --require-hardware."""
    assert verify(train, strategy)
