"""Python that replicas call: what it draws is the run's, and what it computes is judged."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from harness import verify
from harness.recording.steps import python_rows
from harness.recording.steps.python_calls import PythonCall

ROWS = np.arange(6.0, dtype=np.float32).reshape(3, 2)
COUNT, TURNS = itertools.count(), iter([ROWS])
RUN = [[ROWS[:1] - 5.0], [ROWS[1:] + 5.0]]


@pytest.mark.parametrize(
    ("function", "draws"),
    [
        pytest.param(lambda rows: rows - rows.mean(0), False, id="computes"),
        pytest.param(lambda rows: rows + np.random.default_rng().normal(size=rows.shape), True, id="draws"),
        pytest.param(lambda rows: rows + next(COUNT), True, id="counts"),
        pytest.param(lambda rows: next(TURNS), True, id="ends"),
    ],
)
def test_called_again(function: Callable[..., Any], draws: bool) -> None:
    """What is no function of its arguments draws; a mean over the rows of one replica is a function of them."""
    call = PythonCall(function, is_eager=False, inputs=[None])
    own = [function(ROWS)]
    assert call.draws(own, RUN, [ROWS]) == [draws]


def test_a_coin() -> None:
    """What falls alike by chance is called more than once."""
    turns = itertools.chain([1, 1, 1, 0], itertools.repeat(1))
    call = PythonCall(lambda: np.array(next(turns)), is_eager=False, inputs=[])
    assert call.draws([np.array(1)], [[np.array(0)], [np.array(1)]], []) == [True]


def test_each_result_by_itself() -> None:
    """The number of rows beside noise is a function of them."""
    generator = np.random.default_rng(1)

    def function(rows: Any) -> Any:
        return np.float32(len(rows)), (rows + generator.normal(size=rows.shape)).astype(np.float32)

    own = list(map(np.asarray, function(ROWS)))
    parts = [list(map(np.asarray, function(each))) for each in (ROWS[:1], ROWS[1:])]
    assert PythonCall(function, is_eager=False, inputs=[None]).draws(own, parts, [ROWS]) == [False, True]


class _Noise:
    """A generator that stands in an attribute, and a mean that is kept beside it."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(3)
        self.mean = np.zeros(2)

    def drawn(self, rows: Any) -> Any:
        return rows + self.generator.normal(size=rows.shape)

    def centred(self, rows: Any) -> Any:
        self.mean = 0.9 * self.mean + 0.1 * rows.mean(0)
        return rows - self.mean


LEGACY, OWN = np.random.RandomState(1), random.Random(2)


@pytest.mark.parametrize(
    ("function", "keeps"),
    [
        pytest.param(_Noise().drawn, False, id="attribute"),
        pytest.param(functools.partial(lambda noise, rows: noise.drawn(rows), _Noise()), False, id="partial"),
        pytest.param(lambda rows: rows + LEGACY.normal(size=rows.shape), False, id="global"),
        pytest.param(lambda rows: rows * OWN.random(), False, id="of Python"),
        pytest.param(lambda rows: rows + np.random.normal(size=rows.shape), False, id="NumPy's own"),
        pytest.param(_Noise().centred, True, id="mean"),
        pytest.param(lambda rows: rows + next(COUNT), True, id="count"),
    ],
)
def test_a_state_is_told_from_draws(function: Callable[..., Any], keeps: bool) -> None:
    """With its generators as they were it gives the same again, unless it keeps something else."""
    call = PythonCall(function, is_eager=False, inputs=[None])
    own, before = [function(ROWS)], str(np.random.get_state())
    assert call.draws(own, RUN, [ROWS]) == [True]
    assert call.keeps_state is keeps
    assert str(np.random.get_state()) == before  # from which the program may draw elsewhere


SEEDED = np.random.default_rng(5)


def _masked(rows: Any) -> Any:
    mask = SEEDED.random(rows.shape) < 0.5
    return rows * mask + SEEDED.normal(size=rows.shape)


def _mixed(rows: Any) -> Any:
    return 0.7 * rows + 0.3 * rows[SEEDED.permutation(len(rows))]


@pytest.mark.parametrize(
    ("function", "mixes"),
    [
        pytest.param(lambda rows: rows + SEEDED.normal(size=rows.shape), False, id="noise"),
        pytest.param(_masked, False, id="mask-and-noise"),
        pytest.param(lambda rows: rows * SEEDED.binomial(1, 0.01, rows.shape), False, id="rare"),
        pytest.param(lambda rows: rows - rows.mean(0) + 0.1 * SEEDED.normal(size=rows.shape), True, id="centred"),
        pytest.param(lambda rows: rows * len(rows) + 0.1 * SEEDED.normal(size=rows.shape), True, id="length"),
        pytest.param(lambda rows: rows / len(rows) * (SEEDED.random(rows.shape) < 0.8), True, id="mean"),
        pytest.param(_mixed, True, id="mixed"),
    ],
)
def test_rows_that_depend_on_those_beside_them(function: Callable[..., Any], mixes: bool) -> None:
    """Noise on what is computed of a batch does not hide it."""
    call = PythonCall(function, is_eager=False, inputs=[None])
    rows = np.arange(48.0).reshape(12, 4)
    parts = [[function(rows[:4])], [function(rows[4:])]]
    assert call.draws([function(rows)], parts, [rows]) == [True]
    assert call.mixes_rows is mixes
    assert not call.keeps_state


def test_slow_python_is_not_called_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too few means tell nothing."""
    monkeypatch.setattr(python_rows, "_SECONDS", 0.0)
    call = PythonCall(_mixed, is_eager=False, inputs=[None])
    assert call.draws([_mixed(ROWS)], RUN, [ROWS]) == [True]
    assert not call.mixes_rows


def test_not_called_where_the_run_has_the_same() -> None:
    """A right function is not called once more, which a program could see."""
    calls: list[Any] = []
    call = PythonCall(calls.append, is_eager=False, inputs=[None])
    assert call.draws([ROWS], [[ROWS[:1]], [ROWS[1:] * np.float32(1 + 1e-6)]], [ROWS]) == [False]
    assert not calls


def test_not_called_without_its_arguments() -> None:
    """Of what takes more than tensors nobody knows."""
    assert PythonCall(len, is_eager=False, inputs=None).draws([ROWS], RUN, []) == [True]


def _train(
    strategy: Any,
    record: Any,
    change: Callable[..., Any],
    *,
    eager: bool = False,
    of_loss: bool = False,
    in_graph: bool = False,
) -> None:
    """A linear model whose rows, or whose products, go through Python."""
    import tensorflow as tf

    rows = np.random.default_rng(0).normal(size=(24, 5)).astype("float32")
    data = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(8))
    with strategy.scope():
        weights = tf.Variable(tf.zeros((5, 1)), name="weights")
    call = tf.py_function if eager else tf.numpy_function

    def through(values: Any) -> Any:
        if in_graph:
            return change(values)
        found = call(lambda given: np.float32(change(given)), [values], tf.float32)
        return tf.ensure_shape(found, values.shape)

    def replica(given: Any) -> None:
        target = tf.reduce_sum(given, 1, keepdims=True) + 1.0
        with tf.GradientTape() as tape:
            if of_loss:
                found = tf.py_function(change, [given @ weights], tf.float32)
                loss = tf.reduce_mean((tf.ensure_shape(found, (None, 1)) - target) ** 2)
            else:
                loss = tf.reduce_sum((through(given) @ weights - target) ** 2) / 8
        total = tf.distribute.get_replica_context().all_reduce("SUM", tape.gradient(loss, weights))
        weights.assign_sub(0.1 * total)

    step = tf.function(lambda given: strategy.run(replica, args=(given,)))
    for given in data:
        step(given)
        record.step(variables=[weights])


def noise_of_each_worker(strategy: Any, record: Any) -> None:
    """Right: each worker draws numbers of its own."""
    task = getattr(strategy.cluster_resolver, "task_id", 0)
    generator = np.random.default_rng(task or 0)
    _train(strategy, record, lambda given: given + generator.normal(size=given.shape))


def running_mean_in_python(strategy: Any, record: Any) -> None:
    """Wrong, and not known to be: each call changes what the next one gives."""
    noise = _Noise()
    noise.mean = np.zeros(5)
    _train(strategy, record, noise.centred)


@pytest.mark.full
def test_a_state_of_python_is_a_condition() -> None:
    """One device would have another one, and nobody can set it."""
    verdict = verify(running_mean_in_python, strategy="mirrored-2")
    assert [each.code for each in verdict.conditions] == ["python_state"]
    assert dataclasses.replace(verdict, strict=True).denied


def centred_noise(strategy: Any, record: Any) -> None:
    """Wrong, and not known to be: rows are centred by the mean of one replica's, below noise."""
    noise = _Noise()
    _train(strategy, record, lambda given: given - given.mean(0) + noise.generator.normal(size=given.shape))


@pytest.mark.full
def test_rows_that_python_mixes_are_a_condition() -> None:
    """One device would mix others, and some mean it so."""
    verdict = verify(centred_noise, strategy="mirrored-2")
    assert [each.code for each in verdict.conditions] == ["python_rows"]
    assert dataclasses.replace(verdict, strict=True).denied


def mean_of_each_replica(strategy: Any, record: Any) -> None:
    """Wrong: the rows of one replica are centred by their own mean."""
    _train(strategy, record, lambda given: given - given.mean(0))


def mean_in_a_py_function(strategy: Any, record: Any) -> None:
    """Wrong as well, by tensors."""
    _train(strategy, record, lambda given: given.numpy() - given.numpy().mean(0), eager=True)


def mean_behind_python(strategy: Any, record: Any) -> None:
    """Wrong: means over replicas' rows are added, of what a `tf.py_function` gives whose gradient is taken."""
    _train(strategy, record, lambda product: product * 2.0, of_loss=True)


def test_noise_of_each_worker_is_right() -> None:
    """One device has the noise that the workers drew."""
    assert verify(noise_of_each_worker, strategy="multi_worker-2").consistent


def order_of_each_replica(strategy: Any, record: Any) -> None:
    """Right: rows are taken in an order that NumPy draws."""
    import tensorflow as tf

    def change(given: Any) -> Any:
        order = tf.numpy_function(lambda rows: np.random.permutation(len(rows)), [given], tf.int64)
        return tf.gather(given, tf.ensure_shape(order, (None,))) * 2.0

    _train(strategy, record, change, in_graph=True)


@pytest.mark.full
def test_an_order_that_python_draws() -> None:
    """One device has the replicas' rows one after another, and so their orders."""
    assert verify(order_of_each_replica, strategy="mirrored-2").consistent


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "line"),
    [
        (mean_of_each_replica, "found = call("),
        (mean_in_a_py_function, "found = call("),
        (mean_behind_python, "loss = tf.reduce_mean("),
    ],
)
def test_computing_is_judged(program: Callable[..., None], line: str) -> None:
    """A mistake is found where Python makes it, and where a gradient goes through Python; and its line."""
    verdict = verify(program, strategy="mirrored-2", explain=True)
    broken = [each.law for each in verdict.judgements if each.status == "broken"]
    assert broken == ["variables_match_reference"], verdict
    assert verdict.culprit is not None
    assert verdict.culprit.source.startswith(line)
