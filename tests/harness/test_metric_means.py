"""Means that Keras metrics keep, of which it is seen what replicas add to them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from harness.evidence.metric_means import with_metric_means
from harness.evidence.trace import Array, ClientTrace, Evaluated, Header, MeanSeen, RunTrace, Seen, Step
from harness.judging.conditions import conditions_of
from harness.judging.laws.protocol import Case
from harness.judging.tolerance import DerivedTolerance
from tests._present import present
from tests.harness._loop import Verified

_SCRIPT = """
import tensorflow as tf
KERAS

strategy = tf.distribute.STRATEGY()
x = tf.random.stateless_normal([46, 3], seed=[1, 2])
dataset = tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, axis=1))).batch(8)
with strategy.scope():
    w = tf.Variable(tf.zeros([3]), name="w")
    mean = keras.metrics.Mean(name="loss")
    error = keras.metrics.MeanAbsoluteError(name="error")

def step(x, y):
    with tf.GradientTape() as tape:
        losses = (tf.linalg.matvec(x, w) - y) ** 2
        loss = tf.nn.compute_average_loss(losses, global_batch_size=8)
    w.assign_sub(0.1 * tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w)))
    mean.update_state(ADDED)
    error.update_state(y[:, None], tf.linalg.matvec(x, w)[:, None], sample_weight=tf.abs(y))

@tf.function
def train(batches, count):
    for _ in tf.range(count):
        strategy.run(step, args=next(batches))

for _ in range(2):
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    train(batches, 2)
    print(float(mean.result()))
    mean.reset_state()
    train(batches, 4)
"""
_MEAN = "tf.reduce_mean(losses)"
_SUMMED = "tf.distribute.get_replica_context().all_reduce('sum', tf.reduce_mean(losses))"
_KERAS = {"keras": "import keras", "tf_keras": "import tf_keras as keras"}


def _run(*clients: list[list[tuple[float, float]]]) -> RunTrace:
    """Of each client, by step, what its replicas add to the sum and the count of a mean, if any do."""
    return RunTrace(
        tuple(
            ClientTrace(
                Header(f"worker:{number}", 0, "x", 2, 1, len(clients), 20),
                steps=tuple(
                    Step(index, 0.0, seen=Seen(index, 0.0, means=(_mean(*parts),) if parts else ()))
                    for index, parts in enumerate(steps, start=1)
                ),
            )
            for number, steps in enumerate(clients)
        )
    )


def _mean(*parts: tuple[float, float]) -> MeanSeen:
    return MeanSeen("loss", "train.py:1", tuple(Array.of(np.array(part)) for part in parts))


def _means(*traces: RunTrace) -> list[list[float | None]]:
    """Of each trace what its first client's steps have as a metric."""
    return [
        [None if step.metrics is None else float(step.metrics[0].parts[0].numpy()) for step in trace.clients[0].steps]
        for trace in with_metric_means(traces)
    ]


@pytest.mark.parametrize(
    ("parts", "reference", "means"),
    [
        ([(6.0, 4.0), (2.0, 4.0)], (8.0, 8.0), [1.0, 1.0]),  # they count examples
        ([(6.0, 4.0), (3.0, 2.0)], (9.0, 6.0), [1.5, 1.5]),
        ([(3.0, 4.0), (1.0, 4.0)], (8.0, 8.0), [1.0, 0.5]),
        ([(6.0, 4.0), (0.0, 0.0)], (6.0, 4.0), [1.5, 1.5]),  # no example is left for one of them
        ([(2.0, 1.0), (1.0, 1.0)], (1.7, 1.0), [1.7, 1.7]),  # a call each: the shares may be unequal
        ([(2.0, 1.0), (1.0, 1.0)], (2.1, 1.0), [2.1, 1.5]),
        ([(1.0, 1.0), (0.5, 1.0)], (1.5, 1.0), [1.5, 0.75]),
    ],
)
def test_the_mean_is_of_what_all_replicas_add(
    parts: list[tuple[float, float]], reference: tuple[float, float], means: list[float]
) -> None:
    """In one process, or in one for each replica; the reference is the first."""
    truth = _run([[reference]])
    expected = [[pytest.approx(mean)] for mean in means]
    assert _means(truth, _run([parts])) == expected
    assert _means(truth, _run(*([[part]] for part in parts))) == expected


@pytest.mark.parametrize("of_evaluation", [True, False])
@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ([(2.0, 1.0), (1.0, 1.0)], "is a mean of what replicas give at each call, 1.5 where one device has 1.7"),
        ([(1.8, 1.0), (1.6, 1.0)], None),
        ([(2.0, 1.0), (1.9, 1.0)], None),  # it is wrong
        ([(6.0, 4.0), (0.8, 1.0)], None),  # it is of examples, and wrong
    ],
)
def test_a_mean_of_calls_is_a_condition(
    parts: list[tuple[float, float]], told: str | None, of_evaluation: bool
) -> None:
    """No law says so: which examples count how often there is a choice, which one device does not make."""

    def trace(*added: tuple[float, float]) -> RunTrace:
        (client,) = _run([list(added)] if not of_evaluation else [[]]).clients
        header = msgspec.structs.replace(client.header, replicas=len(added))
        call = Evaluated(1, 0, 0.0, "measured", (), means=(_mean(*added),))
        return RunTrace((msgspec.structs.replace(client, header=header, evaluated=(call,) * of_evaluation),))

    truth = trace((1.7, 1.0))
    truth, run = with_metric_means([truth, trace(*parts)]) if not of_evaluation else (truth, trace(*parts))
    case = Case(run, truth, DerivedTolerance(truth, []), follows=True)
    name = "measured at loss" if of_evaluation else "loss"
    expected = [("given_back", f"that {name} {told}")] if told else []
    assert [(each.code, each.text) for each in conditions_of(case, [])[1]] == expected


def test_only_a_mean_that_everybody_has_is_compared() -> None:
    """And not one of nothing."""
    truth = _run([[(1.0, 1.0)], [(1.0, 1.0)], [(0.0, 0.0)]])
    assert _means(truth, _run([[(1.0, 1.0)], [], [(0.0, 0.0)]])) == [[1.0, None, None], [1.0, None, None]]
    assert _means(truth, _run([[(1.0, 1.0)]] * 2, [[], [(1.0, 1.0)]])) == [[None, 1.0, None], [None, 1.0]]


@pytest.mark.parametrize(
    ("added", "strategy", "keras", "right"),
    [
        ("loss", "mirrored-2", "keras", False),
        pytest.param("losses", "mirrored-2", "keras", True, marks=pytest.mark.full),
        pytest.param(_MEAN, "mirrored-3", "keras", True, marks=pytest.mark.full),
        pytest.param("loss", "mirrored-3", "tf_keras", False, marks=pytest.mark.full),
        pytest.param("losses * 2", "multi_worker-2x2", "tf_keras", True, marks=pytest.mark.full),
        pytest.param("loss", "multi_worker-2", "keras", False, marks=pytest.mark.full),
        pytest.param(_SUMMED, "multi_worker-2", "tf_keras", False, marks=pytest.mark.full),
    ],
)
def test_a_mean_of_shares_is_found(added: str, strategy: str, keras: str, right: bool, verified: Verified) -> None:
    """A loss divided by the global batch is a share; the mean of a replica's own losses is none, however many it has.

    The last steps of an epoch have unequal shares, so that a mean of means is not one device's; some reset the mean.
    """
    kind = "MultiWorkerMirroredStrategy" if strategy.startswith("multi_worker") else "MirroredStrategy"
    source = _SCRIPT.replace("KERAS", _KERAS[keras]).replace("STRATEGY", kind).replace("ADDED", added)
    verdict = verified(source, strategy, explain=not right, prove=False)
    assert verdict.consistent is right, str(verdict)
    assert not any("what Keras metrics keep" in note for note in verdict.notes)
    judged = {law.law: law.status for law in verdict.judgements}
    assert judged["metrics_match_reference"] == ("held" if right else "broken")
    assert judged["variables_match_reference"] == "held"
    # A metric that is read reduces what replicas counted, which is not the program's.
    assert [each.code for each in verdict.conditions] == (["given_back"] if added == _MEAN else []), verdict.conditions
    if not right:
        lines = source.splitlines()
        assert lines[present(verdict.culprit).line - 1].strip() == f"mean.update_state({added})"
        assert present(verdict.explanation).rule == "metric_not_aggregated"
        assert {each.variable for each in verdict.findings} == {"loss"}


_EVALUATED = """
@tf.function
def evaluate(batches):
    def measure(x, y):
        losses = (tf.linalg.matvec(x, w) - y) ** 2
        mean.update_state(ADDED)
    for _ in tf.range(6):
        strategy.run(measure, args=next(batches))

mean.reset_state()
evaluate(iter(strategy.experimental_distribute_dataset(dataset)))
print(float(mean.result()))
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("added", "right"), [("losses", True), ("tf.nn.compute_average_loss(losses, global_batch_size=8)", False)]
)
def test_so_is_a_mean_of_an_evaluation(added: str, right: bool, verified: Verified) -> None:
    """Which gives nothing back; what it adds in a loop is taken together."""
    source = _SCRIPT.replace("KERAS", _KERAS["keras"]).replace("STRATEGY", "MirroredStrategy")
    source = source.replace("ADDED", "losses") + _EVALUATED.replace("ADDED", added)
    verdict = verified(source, "mirrored-2", explain=not right, prove=False)
    judged = {law.law: law.status for law in verdict.judgements}
    assert judged["evaluations_match_reference"] == ("held" if right else "broken"), str(verdict)
    assert judged["metrics_match_reference"] == "held"
    assert not any("what Keras metrics keep" in note for note in verdict.notes)
    if not right:
        assert source.splitlines()[present(verdict.culprit).line - 1].strip() == f"mean.update_state({added})"


_OWN = """
import keras
import tensorflow as tf

strategy = tf.distribute.MirroredStrategy()

class Explained(keras.metrics.Metric):
    def __init__(self):
        super().__init__(name="explained")
        self.total = self.add_weight(name="total", initializer="zeros")
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, y, output, sample_weight=None):
        spread = tf.reduce_mean((y - tf.reduce_mean(y)) ** 2)  # guilty
        self.total.assign_add(1.0 - tf.reduce_mean((y - output) ** 2) / spread)
        self.count.assign_add(1.0)

    def result(self):
        return self.total / self.count

x = tf.random.stateless_normal([48, 3], seed=[1, 2])
with strategy.scope():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", metrics=[Explained()])
model.fit(x.numpy(), tf.reduce_sum(x, axis=1, keepdims=True).numpy(), batch_size=8, shuffle=False, verbose=0)
"""


@pytest.mark.full
def test_the_line_is_that_which_makes_what_is_added_wrong(verified: Verified) -> None:
    """In a metric of the program's own, which `fit` updates; not the one that adds it."""
    verdict = verified(_OWN, "mirrored-2", explain=True, prove=False)
    assert {each.law for each in verdict.findings} == {"metrics_match_reference"}, str(verdict)
    assert _OWN.splitlines()[present(verdict.culprit).line - 1].endswith("# guilty")
