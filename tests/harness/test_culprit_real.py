"""The culprit of real programs under real strategies; in the quick profile test_cures.py and test_notebooks.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.judging.culprit.kinds import UPDATE
from tests._present import present
from tests.harness._loop import Verified

_HERE = Path(__file__).name


def _line(marker: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.rstrip().endswith(f"# {marker}"))


def _mean_per_replica(strategy: Any, record: Any) -> None:
    """A custom loop of plain variables, with examples that are sharded over workers and a last batch that is uneven."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(15, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.ones([3, 2]) * 0.5)
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8))

    @tf.function
    def train_step(batch: Any) -> Any:
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                per_example = tf.reduce_sum(tf.square(tf.matmul(x, w) - 1), 1)
                loss = tf.reduce_mean(per_example) / strategy.num_replicas_in_sync  # an uneven mean
            gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
            w.assign_sub(0.1 * gradient)
            return loss

        return strategy.reduce("SUM", strategy.run(step, (batch,)), axis=None)

    for batch in dataset:
        record.step(loss=train_step(batch), variables=[w])


def _batch_normalized(strategy: Any, record: Any) -> None:
    """Keras's `fit`, in which no line of the program's own computes anything."""
    import keras
    import numpy as np

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(16, 4)).astype("float32"), random.normal(size=(16, 1)).astype("float32")
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.layers.Dense(4),
                keras.layers.BatchNormalization(),  # a layer
                keras.layers.Dense(1),
            ]
        )
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


def _summed(strategy: Any, record: Any) -> None:
    """Right: carried out at once, without a graph."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.ones([3, 2]) * 0.5)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, w) - 1)) / 8
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))
        return loss

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        record.step(loss=strategy.reduce("SUM", strategy.run(step, (batch,)), axis=None))


@pytest.mark.full
def test_an_uneven_mean_is_found_at_the_step_that_is_uneven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at the first step, whose shares are equal; with examples in another order than the reference's."""
    monkeypatch.delenv("LOCKSTEP_CULPRIT")
    verdict = verify(_mean_per_replica, "multi_worker-2")
    assert not verdict
    culprit = verdict.culprit
    assert culprit is not None, str(verdict)
    assert (Path(culprit.file).name, culprit.line, culprit.step) == (_HERE, _line("an uneven mean"), 2)
    assert "its own 4, 3 of 7 examples" in culprit.relation
    assert culprit.inputs == ("per_example is split by examples (right)",)
    assert f"culprit: {culprit.where}  loss = tf.reduce_mean(per_example)" in str(verdict)
    assert culprit.where in verdict.summary


def _centered(strategy: Any, record: Any) -> None:
    """What a step is given as its argument is what the wrong operation computes from."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.ones([3]))

    @tf.function
    def train_step(batch: Any) -> Any:
        def step(x: Any) -> Any:
            x = x - tf.reduce_mean(x, axis=0)  # centered
            w.assign_sub(tf.distribute.get_replica_context().all_reduce("SUM", tf.reduce_sum(x * x, axis=0) / 8))
            return tf.reduce_sum(x * x) / 8

        return strategy.reduce("SUM", strategy.run(step, (batch,)), axis=None)

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        record.step(loss=train_step(batch), variables=[w])


@pytest.mark.full  # a test of what is looked at in a graph has arguments too
@pytest.mark.parametrize("strategy", ["mirrored-2", "multi_worker-2"])
def test_what_a_step_is_given_is_related_to_the_reference(strategy: str) -> None:
    """It is split by examples; that nothing unlike came in would be wrong to say."""
    culprit = verify(_centered, strategy, explain=True).culprit
    assert culprit is not None
    assert culprit.line == _line("centered")
    assert culprit.relation.startswith("each replica's mean is over its own 4 of 8 examples")
    assert culprit.inputs == ("what came in is split by examples (right)",)


@pytest.mark.full
def test_a_layer_is_named_by_the_line_that_made_it() -> None:
    """What Keras computes has no line of the program's own."""
    verdict = verify(_batch_normalized, "mirrored-2", explain=True)
    assert verdict.culprit is not None, str(verdict)
    assert (verdict.culprit.line, verdict.culprit.layer) == (_line("a layer"), "batch_normalization")


@pytest.mark.full
def test_a_right_program_that_runs_at_once_has_none() -> None:
    """Looked for since asked, in operations that are carried out one by one."""
    verdict = verify(_summed, "mirrored-2", explain=True)
    assert verdict
    assert verdict.looked is not None
    assert verdict.culprit is None
    assert "no operation was found that is given what is right" in (verdict.looked.why_not or "")


def _silent(strategy: Any, record: Any) -> None:
    """A program that reports nothing at all."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    with strategy.scope():
        w = tf.Variable(tf.ones([3, 2]) * 0.5)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1))  # of nobody's report
        w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w)))

    @tf.function
    def train_step(batch: Any) -> None:
        strategy.run(step, (batch,))

    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(8)):
        train_step(batch)


@pytest.mark.full
def test_a_program_that_reports_nothing_has_a_culprit_too() -> None:
    """Its steps are those that are seen."""
    verdict = verify(_silent, "mirrored-2", explain=True)
    assert verdict.culprit is not None, str(verdict)
    assert (verdict.culprit.line, verdict.culprit.step) == (_line("of nobody's report"), 1)


def _with_momentum(strategy: Any, record: Any) -> None:
    """Both copies are updated together, and read again; each replica leaves out the last of its examples."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(6).normal(size=(36, 4)).astype("float32")
    kept: dict[str, Any] = {"aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA}
    with strategy.scope():
        w = tf.Variable(tf.ones([4, 3]) / 5, name="w", **kept)
        m = tf.Variable(tf.zeros([4, 3]), name="m", trainable=False, **kept)

    def replica_step(x: Any) -> None:
        own = x[: 4 * (tf.shape(x)[0] // 4)]  # a tail
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.matmul(own, w) - 1) ** 2) / 18
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, w))
        m.assign(0.5 * m + gradient)
        w.assign_sub(0.1 * m)

    step = tf.function(lambda x: strategy.run(replica_step, (x,)))
    for batch in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(18)):
        step(batch)
        record.step(variables=[w, m])


@pytest.mark.full
def test_what_replicas_update_together_is_read_after_it() -> None:
    """So that no variable is blamed that begins as it should."""
    verdict = verify(_with_momentum, "mirrored-2", explain=True, prove=False)
    assert verdict.culprit is not None, str(verdict)
    assert verdict.culprit.line == _line("a tail"), str(verdict)


def _accumulating(strategy: Any, record: Any) -> None:
    """Each replica adds up gradients of its own in one function, and another one puts them together."""
    import numpy as np
    import tensorflow as tf

    x = np.random.default_rng(7).normal(size=(64, 3)).astype("float32")
    each: dict[str, Any] = {
        "synchronization": tf.VariableSynchronization.ON_READ,
        "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
    }
    with strategy.scope():
        w = tf.Variable([0.5, -0.25, 0.75])
        total = tf.Variable(tf.zeros([3]), trainable=False, **each)

    def add(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.linalg.matvec(x, w) - 1.0) ** 2)  # of its own
        gradient = tape.gradient(loss, w)
        total.assign_add(gradient)

    def put_together() -> None:
        gradient = tf.distribute.get_replica_context().all_reduce("SUM", total.value() / 2.0)
        w.assign_sub(0.1 * gradient)
        total.assign(tf.zeros([3]))

    accumulate = tf.function(lambda batch: strategy.run(add, (batch,)))
    apply = tf.function(lambda: strategy.run(put_together))
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(x).batch(16))
    for number, batch in enumerate(dataset, 1):
        accumulate(batch)
        if number % 2 == 0:
            apply()


@pytest.mark.full
def test_what_replicas_keep_for_themselves_is_blamed_last() -> None:
    """Each rightly adds up gradients of its own; and what was done in an earlier step was not done in this one."""
    verdict = verify(_accumulating, "mirrored-2", explain=True, prove=False)
    assert verdict.culprit is not None, str(verdict)
    assert verdict.culprit.line == _line("of its own"), str(verdict)


_OWN_LOSS = """
import numpy as np
import tensorflow as tf
import tf_keras as keras

def total(y, output):
    return tf.reduce_sum((y - output) ** 2) / 8.0  # the loss

x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss=total)
model.fit(x, x.sum(axis=1, keepdims=True), batch_size=8, shuffle=False, verbose=0)
"""


@pytest.mark.full
def test_behind_a_division_by_keras_stands_the_line_of_what_it_divides(verified: Verified) -> None:
    """What replicas give it has to be a mean; the program's own line of the division is that which calls `fit`."""
    culprit = present(verified(_OWN_LOSS, "mirrored-2", explain=True, prove=False).culprit)
    line = next(number for number, text in enumerate(_OWN_LOSS.splitlines(), start=1) if text.endswith("# the loss"))
    assert culprit.relation.endswith(f"; what it takes was made by train.py:{line}")
    assert "model.fit" in culprit.source


_REDUCED_OUTSIDE = """
import keras
import numpy as np
import tensorflow as tf

x = np.arange(32, dtype="float32")[:, None] / 32
strategy = tf.distribute.MirroredStrategy()
data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices((x, 2 * x)).batch(8))
with strategy.scope():
    w = tf.Variable([[0.5]])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build([w])

@tf.function
def train(batch):
    def step(batch):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss((batch[0] @ w - batch[1])[:, 0] ** 2, global_batch_size=8)
        return tape.gradient(loss, w)
    gradients = strategy.run(step, args=(batch,))
    gradient = strategy.reduce("MEAN", gradients, axis=None)  # the mean
    optimizer.apply_gradients([(gradient, w)])

for batch in data:
    train(batch)
"""


@pytest.mark.full
def test_what_is_reduced_once_for_all_replicas_is_no_part(verified: Verified) -> None:
    """Both copies of a variable are given the same half, which is not what the parts add up to."""
    culprit = present(verified(_REDUCED_OUTSIDE, "mirrored-2", explain=True, prove=False).culprit)
    lines = enumerate(_REDUCED_OUTSIDE.splitlines(), start=1)
    assert culprit.line == next(number for number, text in lines if text.endswith("# the mean")), culprit
    assert "the parts of the replicas add up" in culprit.relation


_FIRST_ONLY = """
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    w = tf.Variable(tf.zeros([2, 1]), name="w", aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
data = tf.data.Dataset.range(32).map(lambda k: tf.cast(tf.stack([k, k * k % 7]), tf.float32) / 10).batch(8)

def replica_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(tf.square(batch @ w - 1)[:, 0], global_batch_size=8)
    w.assign_sub(0.01 * tape.gradient(loss, w))

step = tf.function(lambda batch: strategy.run(replica_step, args=(batch,)))
for batch in strategy.experimental_distribute_dataset(data):
    step(batch)
"""


@pytest.mark.full
def test_a_variable_that_takes_the_first_replicas_part_is_told(verified: Verified) -> None:
    """The parts would add up to what one device has."""
    verdict = verified(_FIRST_ONLY, "mirrored-2", explain=True, prove=False)
    culprit = present(verdict.culprit)
    assert (culprit.kind, culprit.source) == (UPDATE.code, "w.assign_sub(0.01 * tape.gradient(loss, w))"), str(verdict)
    assert "aggregation=ONLY_FIRST_REPLICA" in culprit.relation
