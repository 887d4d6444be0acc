"""Programs that train without a gradient of a variable: what their replicas assign is a step, and judged."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import verify
from tests.harness._loop import LOOP, Verified


def of_a_copy(strategy: Any, record: Any, *, wrong: bool = False, adversarial: bool = False) -> None:
    """A weight is trained by gradients of its copy in 16 bits, and reported nowhere.

    A wrong one averages over what each replica has; an adversarial one first takes gradients of examples.
    """
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(32, 20)).astype("float32")
    with strategy.scope():
        weight = tf.Variable(tf.zeros([20, 50]), name="weight", aggregation=tf.VariableAggregation.MEAN)
        other = tf.Variable(tf.zeros([20, 50]), name="other", aggregation=tf.VariableAggregation.MEAN)

    def losses(examples: Any, copy: Any) -> Any:
        return tf.reduce_sum((tf.cast(tf.cast(examples, copy.dtype) @ copy, tf.float32) - 1) ** 2, axis=1)

    def replica(examples: Any) -> None:
        with tf.GradientTape() as tape:
            copy = tf.cast(weight, tf.bfloat16)
            each = losses(examples, copy)
            loss = tf.reduce_mean(each) if wrong else tf.nn.compute_average_loss(each, global_batch_size=8)
        gradient = tf.cast(tape.gradient(loss, copy), tf.float32)
        weight.assign_sub(0.001 * tf.distribute.get_replica_context().all_reduce("SUM", gradient))

    def attack(examples: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(examples)
            loss = tf.reduce_sum(losses(examples, tf.convert_to_tensor(other)))
        return examples + 0.1 * tf.sign(tape.gradient(loss, examples))

    step = tf.function(lambda examples: strategy.run(replica, args=(examples,)))
    attacked = tf.function(lambda examples: strategy.run(attack, args=(examples,)))
    for examples in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        step(attacked(examples) if adversarial else examples)


@pytest.mark.full
@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({}, "consistent"),
        ({"wrong": True}, "inconsistent"),
        ({"adversarial": True}, "consistent"),
        ({"adversarial": True, "wrong": True}, "inconsistent"),
    ],
)
def test_a_call_that_assigns_after_gradients_is_a_step(told: dict[str, bool], outcome: str) -> None:
    """It is judged; one that takes gradients of its examples, and assigns nothing, is none."""
    verdict = verify(functools.partial(of_a_copy, **told), "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    compared = {law.law: law.compared for law in verdict.judgements}
    # Two variables, in the steps of 32 examples in batches of 8.
    assert compared["variables_match_reference"] == 2 * 4


_INITIALIZED = """
first = next(iter(strategy.experimental_distribute_dataset(dataset)))
strategy.run(lambda x, y: w.assign({}), args=first)
"""
_MEAN, _EXTREME = "tf.reduce_mean(x, axis=0)", "tf.reduce_max(x, axis=0)"


@pytest.mark.full
@pytest.mark.parametrize(("value", "outcome"), [(_MEAN, "consistent"), (_EXTREME, "inconsistent")])
def test_what_replicas_set_before_they_train_is_a_step(value: str, outcome: str, verified: Verified) -> None:
    """As layers do that are initialized by the first batch; each replica has but its own part of that."""
    loop = LOOP.replace("for _ in range(int(sys.argv[1])):", f"{_INITIALIZED.format(value)}for _ in range(1):")
    loop = loop.replace('name="w")', 'name="w", aggregation=tf.VariableAggregation.MEAN)')
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert not verdict.conditions
    compared = {law.law: law.compared for law in verdict.judgements}
    assert compared["examples_match_reference"] == 1 + 3  # the first batch, and the three of the epoch
    if outcome == "inconsistent":
        assert verdict.first_divergence is not None
        assert verdict.first_divergence.step == 1


@pytest.mark.parametrize(("reduction", "outcome"), [("SUM", "consistent"), ("MEAN", "inconsistent")])
def test_gradients_that_a_program_computes_itself_make_steps(reduction: str, outcome: str, verified: Verified) -> None:
    """No tape is asked for anything, as where gradients of examples are clipped one by one."""
    tape = LOOP[LOOP.index("    with tf.GradientTape()") : LOOP.index("    w.assign_sub")]
    loop = LOOP.replace(
        tape,
        "    errors = tf.linalg.matvec(x, w) - y\n"
        "    loss = tf.reduce_sum(errors ** 2) / BATCH\n"
        "    gradient = tf.reduce_sum(tf.clip_by_norm(2 * errors[:, None] * x, 1.0, axes=[1]), axis=0) / BATCH\n",
    ).replace('all_reduce("sum"', f'all_reduce("{reduction}"')
    loop = loop.replace("int(sys.argv[1])", "1")
    verdict = verified(loop, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)


_STATISTICS = """
import tensorflow as tf

strategy = tf.distribute.{kind}()
x = tf.random.stateless_normal([480, 3], seed=[1, 2])
dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(4))
with strategy.scope():
    sums = {{"aggregation": tf.VariableAggregation.SUM}}
    total = tf.Variable(tf.zeros([3]), synchronization=tf.VariableSynchronization.{synchronization}, **sums)
    mean = tf.Variable(tf.zeros([3]))
    w = tf.Variable(tf.ones([3]), aggregation=tf.VariableAggregation.MEAN)
add = tf.function(lambda x: strategy.run(lambda x: total.assign_add(tf.reduce_sum(x, axis=0)), args=(x,)))

@tf.function
def train(x):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, [[1.0, 0.0, 0.0]]) - tf.linalg.matvec(x - mean, [w])) ** 2) / 4
        w.assign_sub(0.01 * tf.distribute.get_replica_context().all_reduce("{reduction}", tape.gradient(loss, w)))
    strategy.run(step, args=(x,))

for batch in dataset:
    add(batch)
mean.assign(total.read_value() / 480)
for batch in dataset:
    train(batch)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("changes", "strategy", "outcome"),
    [
        ({}, "mirrored-2", "consistent"),
        ({"reduction": "MEAN"}, "mirrored-2", "inconsistent"),
        ({"synchronization": "ON_READ"}, "mirrored-2", "consistent"),
        ({"kind": "experimental.CentralStorageStrategy"}, "central_storage-2", "consistent"),
    ],
)
def test_statistics_before_a_training(changes: dict[str, str], strategy: str, outcome: str, verified: Verified) -> None:
    """They take more steps than are judged of a script, which counts those that take gradients."""
    usual = {"kind": "MirroredStrategy", "synchronization": "AUTO", "reduction": "SUM"}
    script = _STATISTICS.format(**{**usual, **changes})
    verdict = verified(script, strategy, explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    seen = {law.law: law.compared for law in verdict.judgements}
    assert seen["rows_whole"] > 100


_ASSIGNED_AFTERWARDS = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
x = tf.random.stateless_normal([24, 3], seed=[1, 2])
with strategy.scope():
    mean = tf.Variable(tf.zeros([3]))

{decorator}
def total_of(x):
    return tf.reduce_sum(x, axis=0)

for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
    total = strategy.reduce("{reduction}", strategy.run(total_of, args=(batch,)), axis=None)
    mean.assign_add(total / 24)
"""


@pytest.mark.full
@pytest.mark.parametrize("decorator", ["", "@tf.function"])
@pytest.mark.parametrize(("reduction", "outcome"), [("SUM", "consistent"), ("MEAN", "inconsistent")])
def test_what_is_assigned_of_replicas_after_a_call_makes_a_step_of_it(
    reduction: str, decorator: str, outcome: str, verified: Verified
) -> None:
    """It is what the next one begins with; and what is reduced in between belongs to it."""
    script = _ASSIGNED_AFTERWARDS.format(decorator=decorator, reduction=reduction)
    verdict = verified(script, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert [each.code for each in verdict.conditions] == (["given_back"] if outcome == "inconsistent" else [])
    compared = {law.law: law.compared for law in verdict.judgements}
    assert compared["variables_match_reference"] == compared["rows_whole"] == 3


_SCHEDULED = """
import tensorflow as tf

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
x = tf.random.stateless_normal([24, 3], seed=[1, 2])
with strategy.scope():
    mean = tf.Variable(tf.zeros([3]))

@tf.function
def data():
    return strategy.distribute_datasets_from_function(lambda _: tf.data.Dataset.from_tensor_slices(x).batch(8).repeat())

@tf.function
def adapt(iterator):
    strategy.run(lambda x: mean.assign_add(tf.reduce_sum(x, axis=0) / 24), args=(next(iterator),))

batches = iter(coordinator.create_per_worker_dataset(data))
for _ in range(4):
    coordinator.schedule(adapt, args=(batches,))
coordinator.join()
"""


@pytest.mark.full
def test_a_closure_that_takes_no_gradients_is_a_step(verified: Verified) -> None:
    """Its variables are on a server, and known by those that TensorFlow has wrapped."""
    verdict = verified(_SCHEDULED, "parameter_server-2w1p", explain=False, prove=False)
    assert verdict.consistent, str(verdict)
    compared = {law.law: law.compared for law in verdict.judgements}
    assert compared["variables_match_reference"] == compared["rows_whole"] == 4


def resumed(strategy: Any, record: Any, *, restores: bool = True, parts: int = 8) -> None:
    """Replicas set a variable whenever the program starts; then it restores all that it has saved, and trains."""
    import tensorflow as tf

    x = tf.random.stateless_normal([48, 3], seed=[1, 2])
    data = tf.data.Dataset.from_tensor_slices(x).batch(8)
    with strategy.scope():
        shift = tf.Variable(tf.zeros([3]), aggregation=tf.VariableAggregation.MEAN)
        w, done = tf.Variable(tf.ones([3])), tf.Variable(0)

    def replica(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x + shift, [w]) - 1.0) ** 2) / (parts or len(x))
        w.assign_sub(0.02 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))
        return loss

    initialized = tf.function(lambda x: strategy.run(lambda x: shift.assign(tf.reduce_mean(x, axis=0)), args=(x,)))
    trained = tf.function(lambda x: strategy.reduce("SUM", strategy.run(replica, args=(x,)), axis=None))
    for batch in strategy.experimental_distribute_dataset(data.take(1)):
        initialized(batch)
    saved = tf.train.Checkpoint(w=w, done=done, shift=shift)
    manager = tf.train.CheckpointManager(saved, str(record.directory), max_to_keep=3)
    if restores:
        saved.restore(manager.latest_checkpoint)
    for batch in strategy.experimental_distribute_dataset(data.skip(done.numpy())):
        loss = trained(batch)
        done.assign_add(1)
        manager.save()
        record.step(loss=loss, variables=[w, shift])


@pytest.mark.full
@pytest.mark.parametrize("restores", [True, False])
def test_a_part_goes_on_where_it_takes_gradients(restores: bool) -> None:
    """What it sets before that it may restore."""
    program = functools.partial(resumed, restores=restores)
    verdict = verify(program, "mirrored-2", interrupt_at=3, prove=False)
    assert verdict.consistent is restores, str(verdict)
    assert restores or (verdict.explanation is not None and verdict.explanation.rule == "restarted_from_scratch")


@pytest.mark.full
def test_the_line_is_that_of_the_first_step_that_is_reported() -> None:
    """What replicas have set before is no step of a program that reports."""
    verdict = verify(functools.partial(resumed, parts=0), "mirrored-2", explain=True, prove=False)
    assert verdict.culprit is not None, str(verdict)
    assert "len(x)" in verdict.culprit.source


_OWN_WEIGHTS = """
import tensorflow as tf
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w = tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ, aggregation=tf.VariableAggregation.MEAN)
for _ in range(3):
    strategy.run(lambda: w.assign_sub(0.1 * w.read_value()))
"""


@pytest.mark.full
def test_why_nothing_of_a_step_can_be_judged_is_told(verified: Verified) -> None:
    """Steps were seen, of weights that each replica keeps for itself."""
    verdict = verified(_OWN_WEIGHTS, "mirrored-2")
    assert "steps seen: 3" in str(verdict.abstained), str(verdict)
    judged = verified(_OWN_WEIGHTS.replace("ON_READ", "AUTO"), "mirrored-2")
    assert judged.consistent, str(judged)
