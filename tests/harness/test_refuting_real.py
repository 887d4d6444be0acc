"""Steps that are refuted by batches that were run, and right ones of which a part is nothing but rounding."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from harness import prove, verify
from harness.recording.tracing import TrialBatch
from harness.relations import COARSE
from harness.running.step_graphs import noisy_outcomes
from harness.subject.program import Program

_COUNT, _BATCH = 24, 8


def _trained(strategy: Any, record: Any, make: Any, optimizer: str, mistaken: bool) -> None:
    """A training; with the mistake the gradients of replicas are means, and are added up."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(3)
    data, build, loss_of = make()
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data).batch(_BATCH))
    with strategy.scope():
        variables, predict = build()
        applied = getattr(keras.optimizers, optimizer)(0.01)
        applied.build(variables)

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = loss_of(y, predict(x))
            loss = tf.nn.compute_average_loss(losses, global_batch_size=_BATCH)
            if mistaken:
                loss = tf.reduce_mean(losses)
        applied.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    @tf.function
    def train_step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, batch), axis=None)

    for batch in dataset:
        record.step(loss=train_step(batch), variables=variables)


def _common_bias() -> Any:
    """A bias that all logits have in common: they may all rise, and no loss of a softmax knows."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(_COUNT, 5)).astype("float32"), rng.integers(0, 3, _COUNT)

    def build() -> Any:
        w = tf.Variable(rng.normal(size=(5, 3)).astype("float32"), name="w")
        common = tf.Variable(0.0, name="common")
        return [w, common], lambda x: x @ w + common

    return (x, y), build, tf.nn.sparse_softmax_cross_entropy_with_logits


def _attention() -> Any:
    """The bias of an attention's keys moves all scores of a query alike, so that it changes nothing."""
    import keras
    import numpy as np

    rng = np.random.default_rng(1)
    x = rng.normal(size=(_COUNT, 6, 4)).astype("float32")
    y = rng.normal(size=(_COUNT, 1)).astype("float32")

    def build() -> Any:
        given = keras.Input((6, 4))
        attended = keras.layers.GlobalAveragePooling1D()(keras.layers.MultiHeadAttention(2, 4)(given, given))
        model = keras.Model(given, keras.layers.Dense(1)(attended))
        return model.trainable_variables, lambda x: model(x, training=True)

    return (x, y), build, _squares


def _normalized() -> Any:
    """A synchronized normalization takes off what a bias before it adds."""
    import keras
    import numpy as np

    x = np.random.default_rng(1).normal(size=(_COUNT, 5)).astype("float32")

    def build() -> Any:
        layers = [keras.layers.Dense(6), keras.layers.BatchNormalization(synchronized=True), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((5,)), *layers])
        return model.trainable_variables, lambda x: model(x, training=True)

    return (x, x.sum(1, keepdims=True)), build, _squares


def _squares(y: Any, predicted: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum((predicted - y) ** 2, -1)


def _proof(make: Any, optimizer: str, *, mistaken: bool = False) -> Any:
    def train(strategy: Any, record: Any) -> None:
        _trained(strategy, record, make, optimizer, mistaken)

    return prove(train, "mirrored-2")


@pytest.mark.full  # in the quick profile tests/harness/test_refuting.py refutes
@pytest.mark.parametrize(
    ("make", "optimizer", "status"),
    [
        (_common_bias, "Adam", "proved"),
        (_attention, "Adam", "proved"),
        (_attention, "Lion", "proved"),
        (_normalized, "Adam", "open"),
    ],
)
def test_what_is_nothing_but_rounding_refutes_no_right_step(make: Any, optimizer: str, status: str) -> None:
    """Adam and Lion make a full step of a gradient that is zero in exact arithmetic, in any direction."""
    proof = _proof(make, optimizer)
    assert proof.status == status, str(proof)


@pytest.mark.full  # in the quick profile tests/harness/test_refuting.py refutes
@pytest.mark.parametrize("make", [_common_bias, _attention, _normalized])
def test_the_wrong_twin_of_each_is_refuted(make: Any) -> None:
    """Its other variables are off by far more than rounding."""
    proof = _proof(make, "SGD", mistaken=True)
    assert proof.status == "refuted", str(proof)
    assert proof.culprit.counterexample.shards == (1, 1)


def _penalized(strategy: Any, record: Any, scale: bool) -> None:
    """A penalty of a thousandth of what the examples add; unless it is scaled each replica adds all of it."""
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable(tf.ones([4]))
        optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def train_step(x: Any) -> None:
        def replica_step(x: Any) -> None:
            with tf.GradientTape() as tape:
                loss = tf.nn.compute_average_loss(tf.linalg.matvec(x, w) ** 2, global_batch_size=_BATCH)
                penalty = 0.001 * tf.nn.l2_loss(tf.convert_to_tensor(w))
                loss += tf.nn.scale_regularization_loss(penalty) if scale else penalty
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])

        strategy.run(replica_step, args=(x,))

    dataset = tf.data.Dataset.from_tensor_slices(tf.random.stateless_uniform([_COUNT, 4], (1, 2))).batch(_BATCH)
    for x in strategy.experimental_distribute_dataset(dataset):
        train_step(x)
        record.step(variables=[w])


@pytest.mark.full  # in the quick profile tests/harness/test_refuting.py refutes
@pytest.mark.parametrize(("scale", "status"), [(False, "refuted"), (True, "proved")])
def test_what_the_examples_hide_is_found_with_zeros(scale: bool, status: str) -> None:
    """A thousandth of what they add is within what counts as rounding there, and all of what zeros add."""
    proof = prove(functools.partial(_penalized, scale=scale), "mirrored-2")
    assert proof.status == status, str(proof)
    if not scale:
        assert "with 1+1 examples, with zeros" in str(proof)


def _coarse(strategy: Any, record: Any, part: Any, rows: int = 16) -> None:
    """A variable from which the parts of the replicas are subtracted."""
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable(tf.ones([3]), aggregation=tf.VariableAggregation.SUM)
    dataset = tf.data.Dataset.from_tensor_slices(tf.ones([rows, 3])).batch(rows)

    @tf.function
    def train_step(batch: Any) -> None:
        strategy.run(lambda x: w.assign_sub(part(x, w)), (batch,))

    for batch in strategy.experimental_distribute_dataset(dataset):
        train_step(batch)
        record.step(variables=[w])


def _saturating(strategy: Any, record: Any) -> None:
    """On one device 96000, which float16 does not hold; each replica has 48000."""
    import tensorflow as tf

    def part(x: Any, w: Any) -> Any:
        return 1e-6 * tf.cast(tf.reduce_sum(tf.cast(6000 * x * w, tf.float16), 0), tf.float32)

    _coarse(strategy, record, part)


def _counting(strategy: Any, record: Any) -> None:
    """Each replica counts to 257, which bfloat16 does not know."""
    import tensorflow as tf

    def part(x: Any, w: Any) -> Any:
        return 1e-6 * tf.cast(tf.reduce_sum(tf.ones_like(x[:, 0], tf.bfloat16)), tf.float32) * w

    _coarse(strategy, record, part, 514)


def _summed_wide(strategy: Any, record: Any) -> None:
    """Each example's numbers have 16 bits, and sums have 32."""
    import tensorflow as tf

    def part(x: Any, w: Any) -> Any:
        return 1e-3 * tf.reduce_sum(tf.cast(tf.nn.relu(tf.cast(x * w, tf.float16)), tf.float32), 0)

    _coarse(strategy, record, part)


@pytest.mark.full  # in the quick profile tests/harness/test_relations_doubts.py has the rule
@pytest.mark.parametrize(
    ("program", "conditions"), [(_saturating, {COARSE}), (_counting, {COARSE}), (_summed_wide, set())]
)
def test_a_proof_of_sums_in_16_bits_states_their_range(program: Any, conditions: set[str]) -> None:
    """One device and a replica leave it at different numbers of examples."""
    proof = prove(program, "mirrored-2")
    assert {each.what for each in proof.conditions} == conditions, str(proof)
    assert proof


def _halved(strategy: Any, record: Any, factor: float) -> None:
    """A layer in bfloat16, whose gradients are `factor` times what they should be where there are replicas."""
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 64)).astype("float32"), rng.normal(size=(24, 32)).astype("float32")
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH))
    with strategy.scope():
        w = tf.Variable(rng.normal(size=(64, 32)).astype("float32"), aggregation=tf.VariableAggregation.SUM)
    times = factor if strategy.num_replicas_in_sync > 1 else 1.0

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            predicted = tf.cast(tf.cast(x, tf.bfloat16) @ tf.cast(w, tf.bfloat16), tf.float32)
            loss = tf.nn.compute_average_loss(_squares(y, predicted), global_batch_size=_BATCH)
        w.assign_sub(0.01 * times * tape.gradient(loss, w))
        return loss

    @tf.function
    def train_step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(replica_step, batch), axis=None)

    for batch in dataset:
        record.step(loss=train_step(batch), variables=[w])


@pytest.mark.full
@pytest.mark.parametrize(("factor", "outcome"), [(1.0, "consistent"), (1.01, "inconsistent")])
def test_a_factor_in_16_bits_is_seen_in_the_run_and_in_a_batch(factor: float, outcome: str) -> None:
    """In bfloat16 no element shows a factor of 1.01, which the change of 2048 elements as a whole does."""
    verdict = verify(functools.partial(_halved, factor=factor), "mirrored-2", prove=True, explain=False)
    assert verdict.outcome == outcome, str(verdict)
    broken = [law.law for law in verdict.judgements if law.status == "broken"]
    assert broken == ([] if factor == 1.0 else ["variables_match_reference"])
    assert verdict.proof is not None
    assert verdict.proof.status == ("conditional" if factor == 1.0 else "refuted")


def _from_an_iterator(strategy: Any, record: Any) -> None:
    """As Keras's `fit`: the step takes its examples by itself, and each batch is another."""
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable(1.0, name="w")

    def replica_step(x: Any) -> None:
        w.assign_sub(tf.distribute.get_replica_context().all_reduce("sum", tf.reduce_sum(x) * w) / 100.0)

    @tf.function
    def train_step(batches: Any) -> None:
        strategy.run(replica_step, args=(next(batches),))

    batches = iter(
        strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(tf.range(1.0, 25.0)).batch(8))
    )
    for _ in range(3):
        train_step(batches)
        record.step(variables=[w])


@pytest.mark.full
def test_batches_are_of_the_first_one_whichever_are_tried_before() -> None:
    """What differs is held against reruns with noise of fewer batches."""
    two, four = (TrialBatch((tuple(range(count)),)) for count in (2, 4))
    program = Program.of(_from_an_iterator)
    found = [
        noisy_outcomes(program, batches, 2, (1,), seed=1, timeout=60.0)[0][-1] for batches in ([four], [two, four])
    ]
    assert [each.failed for each in found] == [None, None]
    assert [round(float(each.after["w"][0].numpy()[0]), 4) for each in found] == [0.9, 0.9]
