"""Steps of which only examples are seen, which are written together, with evaluations between them."""

from __future__ import annotations

import contextlib
from typing import Any

from harness.evidence.trace import Seen
from harness.recording.witness import Witness, all_seams


def held_back(strategy: Any) -> list[list[int]]:
    """How many examples each of 41 steps has; and again, in a program that fails after them."""
    return [_seen(strategy, fails=fails) for fails in (False, True)]


def _seen(strategy: Any, *, fails: bool) -> list[int]:
    found: list[Seen] = []
    with contextlib.suppress(_Failure), Witness(strategy, 2, all_seams()).active(found.append):
        _program(strategy)
        if fails:
            raise _Failure
    return [len((each.examples or ((),))[0]) for each in found]


class _Failure(Exception):
    """Of the program."""


def _program(strategy: Any) -> None:
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable([[1.0], [2.0]], aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def replica(x: Any, train: bool) -> None:
        if train:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(x @ w)
            w.assign_sub(0.0 * tape.gradient(loss, w))

    @tf.function(reduce_retracing=True)
    def train(x: Any) -> None:
        strategy.run(replica, args=(x, True))

    @tf.function(reduce_retracing=True)
    def test(x: Any) -> None:
        strategy.run(replica, args=(x, False))

    for number in range(41):
        train(tf.ones([2 + number % 5, 2]))
        test(tf.ones([9, 2]))
