"""Scripts of two workers as people have met them, right and wrong: each with what its verdict says of it."""

from __future__ import annotations

import pytest

from tests._present import present
from tests.harness._loop import Verified

pytestmark = pytest.mark.full  # in the quick profile tests/harness/test_explain_workers.py and test_laws_of_steps.py

_BY_HAND = """
import json, os
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
me = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
x = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")
with strategy.scope():
    w = tf.Variable(tf.ones(3), name="w", aggregation=tf.VariableAggregation.MEAN)

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(batch, w) - 1) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))

@tf.function
def step(batch):
    strategy.run(replica_step, args=(batch,))

for batch in tf.data.Dataset.from_tensor_slices(x[me::2]).batch(8):
    step(batch)
"""

_BEGUN = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(1).normal(size=(32, 3)).astype("float32")
first = np.random.default_rng().normal(size=3).astype("float32")
with strategy.scope():
    w = tf.Variable(first, name="w", aggregation=tf.VariableAggregation.MEAN)

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.linalg.matvec(batch, w) - 1) ** 2)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, w)))

@tf.function
def step(batch):
    strategy.run(replica_step, args=(batch,))

for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(16)):
    step(batch)
"""

_RATED = """
import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.random.default_rng(1).normal(size=(64, 3)).astype("float32")
check = tf.data.Dataset.from_tensor_slices(np.float32([1, 9])).batch(1).shard(2, strategy.cluster_resolver.task_id)
with strategy.scope():
    w = tf.Variable(tf.zeros(3), name="w")
    optimizer = keras.optimizers.SGD(0.2)
    optimizer.build([w])

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((tf.linalg.matvec(batch, w) - 1) ** 2) / 16
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss

@tf.function
def step(batch):
    return strategy.reduce("SUM", strategy.run(replica_step, args=(batch,)), axis=None)

total = tf.function(lambda value: strategy.reduce("SUM", strategy.run(lambda: tf.identity(value)), axis=None))
data = tf.data.Dataset.from_tensor_slices(x).batch(16)
for number, batch in enumerate(strategy.experimental_distribute_dataset(data)):
    step(batch)
    seen = total(tf.constant(sum(float(tf.reduce_sum(each)) for each in check)))
    if number == 1 and float(seen) > 5:
        optimizer.learning_rate.assign(0.02)
"""

_OWN_FILES = """
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
starts = [10 * k for k in range(8)][rank :: strategy.num_replicas_in_sync]  # as names of files are shared out
data = tf.data.Dataset.from_tensor_slices(tf.constant(starts)).flat_map(
    lambda start: tf.data.Dataset.range(tf.cast(start, tf.int64), tf.cast(start, tf.int64) + 4)
)
data = data.map(lambda k: tf.cast(tf.stack([k, k + 1]), tf.float32) / 100).batch(8)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
data = strategy.experimental_distribute_dataset(data.with_options(options))
with strategy.scope():
    w = tf.Variable(tf.ones((2, 1)), name="w")

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(batch @ w - 1)[:, 0], global_batch_size=8)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

step = tf.function(lambda batch: strategy.run(replica_step, args=(batch,)))
for _ in range(3):
    for batch in data:
        step(batch)
"""


@pytest.mark.parametrize(("wrong", "outcome"), [("", "consistent"), ("(1 + me) * ", "inconsistent")])
def test_shares_that_are_cut_by_hand(verified: Verified, wrong: str, outcome: str) -> None:
    """They are a condition, which hides no step that is wrong."""
    verdict = verified(_BY_HAND.replace("0.1 * ", f"0.1 * {wrong}"), "multi_worker-2", explain=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [each.code for each in verdict.conditions] == ["own_shares"]


@pytest.mark.parametrize(("wrong", "outcome"), [(False, "consistent"), (True, "inconsistent")])
def test_first_values_of_each_worker(verified: Verified, wrong: bool, outcome: str) -> None:
    """The explanation and the culprit say the same."""
    script = _BEGUN.replace("with strategy.scope():", "if True:") if wrong else _BEGUN
    verdict = verified(script, "multi_worker-2", explain=wrong)
    assert verdict.outcome == outcome, str(verdict)
    if wrong:
        assert present(verdict.explanation).rule == "not_broadcast"
        assert present(verdict.culprit).source.startswith('w = tf.Variable(first, name="w"')


@pytest.mark.parametrize(("wrong", "outcome"), [(False, "consistent"), (True, "inconsistent")])
def test_a_rate_of_each_worker(verified: Verified, wrong: bool, outcome: str) -> None:
    """One of two workers lowers it, by what only that one has seen."""
    own = "seen = sum(float(tf.reduce_sum(each)) for each in check)"
    shared = next(line.strip() for line in _RATED.splitlines() if "seen = total" in line)
    script = _RATED.replace(shared, own) if wrong else _RATED
    verdict = verified(script, "multi_worker-2", explain=wrong)
    assert verdict.outcome == outcome, str(verdict)
    if wrong:
        assert present(verdict.explanation).rule == "set_by_each_worker"
        assert present(verdict.culprit).source == "optimizer.learning_rate.assign(0.02)"


@pytest.mark.full
def test_shares_by_the_number_that_the_resolver_knows(verified: Verified) -> None:
    """A strategy tells it as well as TF_CONFIG does."""
    told = 'json.loads(os.environ["TF_CONFIG"])["task"]["index"]'
    assert told in _BY_HAND
    script = _BY_HAND.replace(told, "strategy.cluster_resolver.task_id")
    verdict = verified(script, "multi_worker-2", explain=False)
    assert verdict.outcome == "consistent", str(verdict)
    assert [each.code for each in verdict.conditions] == ["own_shares"]


@pytest.mark.parametrize(("policy", "outcome"), [("OFF", "consistent"), ("DATA", "inconsistent")])
def test_files_that_each_worker_takes_by_itself(verified: Verified, policy: str, outcome: str) -> None:
    """By the number of replicas, of which the reference is told: a script that is told of one reads all of them."""
    script = _OWN_FILES.replace("AutoShardPolicy.OFF", f"AutoShardPolicy.{policy}")
    verdict = verified(script, "multi_worker-2")
    assert verdict.outcome == outcome, str(verdict)
    broken = {law.law for law in verdict.judgements if law.status == "broken"}
    assert ("examples_in_turn" in broken) is (policy == "DATA"), str(verdict)


_PADDED = """
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rng = np.random.default_rng(0)
sentences = [rng.integers(1, 12, rng.integers(2, 9)) for _ in range(32)]

def rows(context):
    data = tf.data.Dataset.from_generator(lambda: sentences, output_signature=tf.TensorSpec([None], tf.int64))
    data = data.shard(context.num_input_pipelines, context.input_pipeline_id)
    size = context.get_per_replica_batch_size(8)
    return data.padded_batch(size, padding_values=tf.constant(-1, tf.int64))

with strategy.scope():
    w = tf.Variable(tf.zeros([12]), name="w")

def replica(sentence):
    context = tf.distribute.get_replica_context()
    known = tf.cast(sentence >= 0, tf.float32)
    with tf.GradientTape() as tape:
        errors = known * (tf.gather(w, tf.maximum(sentence, 0)) - 1.0) ** 2
        means = tf.reduce_sum(errors, 1) / tf.reduce_sum(known, 1)
        loss = tf.nn.compute_average_loss(means, global_batch_size=8)
    w.assign_sub(context.all_reduce("SUM", tf.convert_to_tensor(tape.gradient(loss, w))))

step = tf.function(lambda sentence: strategy.run(replica, args=(sentence,)))
for sentence in strategy.distribute_datasets_from_function(rows):
    step(sentence)
"""


@pytest.mark.full
@pytest.mark.parametrize(("wrong", "outcome"), [(False, "consistent"), (True, "inconsistent")])
def test_batches_that_each_worker_pads(verified: Verified, wrong: bool, outcome: str) -> None:
    """One device has those of both, padded alike: what is divided by how long a batch is depends on who has it."""
    script = _PADDED.replace("tf.reduce_sum(known, 1)", "tf.cast(tf.shape(sentence)[1], tf.float32)")
    verdict = verified(script if wrong else _PADDED, "multi_worker-2", explain=False)
    assert verdict.outcome == outcome, str(verdict)
