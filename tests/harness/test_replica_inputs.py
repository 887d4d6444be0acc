"""What a step's replicas are given besides a batch, and what a thread of the program's own does, are no examples."""

from __future__ import annotations

import _thread
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from harness import Verdict, verify
from harness.recording.witness._threads import Threads

_BATCH = 8


def _data(seed: int) -> tuple[Any, Any]:
    import numpy as np

    features = np.random.default_rng(seed).normal(size=(3 * _BATCH, 3)).astype(np.float32)
    return features, features.sum(axis=1, keepdims=True)


def _distributed(strategy: Any) -> Any:
    import tensorflow as tf

    return strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(_data(0)).batch(_BATCH))


def _trained(strategy: Any, weights: Any, per_example: Callable[[], Any], *, by: float, how: str) -> None:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(per_example()) / by
    gradient = tape.gradient(loss, weights)
    weights.assign_sub(0.05 * tf.distribute.get_replica_context().all_reduce(how, gradient))


def _regularized(strategy: Any, record: Any, *, points: str, each_its_own: bool = False) -> None:
    """Each step trains on a batch, and then on points that every replica has whole.

    Args:
        strategy: of the run.
        record: unused.
        points: `constant`, `drawn` in the step, or an `argument` of it.
        each_its_own: the mistake: the batches are not distributed.
    """
    import numpy as np
    import tensorflow as tf

    tf.random.set_seed(7)
    anchors = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), tf.float32)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((3, 1)))

    def on_batch(x: Any, y: Any) -> None:
        how = "MEAN" if each_its_own else "SUM"
        _trained(strategy, weights, lambda: (x @ weights - y) ** 2, by=_BATCH, how=how)

    def on_points(x: Any) -> None:
        _trained(strategy, weights, lambda: (x @ weights) ** 2, by=5, how="MEAN")

    @tf.function
    def step(x: Any, y: Any, given: Any) -> None:
        strategy.run(on_batch, args=(x, y))
        chosen = {"constant": lambda: anchors, "drawn": lambda: tf.random.normal((5, 3)), "argument": lambda: given}
        strategy.run(on_points, args=(chosen[points](),))

    plain = tf.data.Dataset.from_tensor_slices(_data(0)).batch(_BATCH)
    for batch in plain if each_its_own else _distributed(strategy):
        step(*batch, anchors)


def _probed(strategy: Any, record: Any) -> None:
    """While a step is under way a thread takes gradients of other examples."""
    import tensorflow as tf

    other = [tf.constant(array[: _BATCH // 2]) for array in _data(1)]
    with strategy.scope():
        weights = tf.Variable(tf.zeros((3, 1)))
    inside, done = threading.Event(), threading.Event()

    def gradient(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x @ weights - y) ** 2)
        return tape.gradient(loss, weights)

    def probe() -> None:
        inside.wait()
        strategy.run(gradient, args=tuple(other))
        done.set()

    def replica_step(x: Any, y: Any) -> None:
        inside.set()
        done.wait()
        _trained(strategy, weights, lambda: (x @ weights - y) ** 2, by=_BATCH, how="SUM")

    thread = threading.Thread(target=probe)
    thread.start()
    for batch in _distributed(strategy):
        strategy.run(replica_step, args=batch)
    thread.join()


def _examples(verdict: Verdict) -> str:
    return next(law.status for law in verdict.judgements if law.law == "examples_match_reference")


@pytest.mark.full
@pytest.mark.parametrize(
    ("points", "strategy"),
    [
        ("constant", "mirrored-2"),
        ("constant", "multi_worker-2"),
        ("drawn", "mirrored-2"),
        ("drawn", "multi_worker-2"),
        ("argument", "mirrored-2"),
        ("argument", "multi_worker-2"),
    ],
)
def test_what_every_replica_has_whole_is_no_example(points: str, strategy: str) -> None:
    """Workers that are all given the same five points have no examples twice."""
    verdict = verify(functools.partial(_regularized, points=points), strategy, prove=False)
    assert verdict.outcome == "consistent", verdict.text
    assert _examples(verdict) == "held"


@pytest.mark.full
def test_besides_such_points_examples_are_judged() -> None:
    """Batches that every worker reads for itself are found, next to points that are meant to be given whole."""
    program = functools.partial(_regularized, points="constant", each_its_own=True)
    verdict = verify(program, "multi_worker-2", prove=False, explain=False)
    assert verdict.outcome == "inconsistent"
    assert _examples(verdict) == "broken"


def _asked_in(thread: threading.Thread, found: list[bool]) -> bool:
    thread.start()
    thread.join()
    return found.pop()


def test_threads_that_the_program_starts_stand_aside() -> None:
    """Those of replicas take part as who has started them does, and those of coordinators and of TensorFlow do."""
    threads, found = Threads(), list[bool]()

    def ask() -> None:
        found.append(threads.is_aside)

    class Replica(threading.Thread):
        """As MirroredStrategy has one for each replica."""

        __init__ = threads.replicas(threading.Thread.__init__)

    def ask_replica() -> None:
        replica = Replica(target=ask)
        replica.start()
        replica.join()

    assert not threads.is_aside
    assert _asked_in(threading.Thread(target=ask), found)
    assert not _asked_in(Replica(target=ask), found)
    assert _asked_in(threading.Thread(target=ask_replica), found)
    assert not _asked_in(threading.Thread(target=ask, name="WorkerClosureProcessingLoop-0"), found)
    done = threading.Event()

    def ask_and_say() -> None:
        ask()
        done.set()

    _thread.start_new_thread(ask_and_say, ())  # as TensorFlow's runtime calls Python
    assert done.wait(10)
    assert not found.pop()


@pytest.mark.full
def test_what_a_thread_of_the_program_does_meanwhile_is_of_no_step() -> None:
    """Examples of which a thread takes gradients, in the middle of a step, are none of the step's."""
    verdict = verify(_probed, "mirrored-2", prove=False)
    assert verdict.outcome == "consistent", verdict.text
    assert _examples(verdict) == "held"
