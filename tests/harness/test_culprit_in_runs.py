"""A step with more operations than are looked at in one run is watched in several, and the answer is the same."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import culprits, verify
from harness.evidence.watch_request import WatchRequest
from harness.evidence.watched_step import WatchedStep
from harness.judging.culprit import Culprit, NoCulprit, WrongReport, find_culprit
from harness.running.watched_step import WatchedRuns, watch_step
from tests.harness._watched import Steps, watched

_X = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32)
_LONG = 12

_Program = Callable[[Steps], None]


def _program(wrong: str) -> _Program:
    """Layers, a loss and what is computed back from it; `wrong` says where replicas do what one device does not."""

    def program(steps: Steps) -> None:
        w = steps.read(2, "w", [np.float32(0.5)] * steps.replicas)
        rows = steps.each("Mul", 3, lambda x, w: x * w, steps.batch, w)
        for _ in range(_LONG):
            rows = steps.each("Tanh", 4, lambda x: np.tanh(x) * np.float32(1.1), rows)
            if wrong == "layer" and _ == _LONG // 2:
                rows = steps.each("Cumsum", 5, lambda x: x - x.mean(0), rows)
        if wrong == "loss":
            parts = steps.each("Mean", 6, lambda x: np.float32(x.mean()), rows)
        else:
            parts = steps.each("Sum", 7, lambda x: np.float32(x.sum() / 32), rows)
        for _ in range(_LONG):
            parts = steps.each("Neg", 8, lambda x: np.float32(0.9) * x, parts)
        total = steps.summed(9, parts)
        if wrong == "after":
            total = steps.each("Mul", 10, lambda x: x * np.float32(steps.replicas), total)
        for _ in range(_LONG):
            total = steps.each("Neg", 11, lambda x: np.float32(0.9) * x, total)
        steps.assign(12, "w", total)

    return program


class _Runs:
    """Watches a made-up step with at most so many looks in each run, as `watch_step` does."""

    def __init__(self, wrong: str, looks: int) -> None:
        run, reference = (_in_a_graph(each) for each in watched(_program(wrong), _X, _X[:4], _X[4:]))
        self.whole = WatchedRuns((run,), reference, (reference,))
        self.times = 0
        self._looks = looks

    def __call__(self, again: tuple[WatchedRuns, WatchRequest] | None = None) -> WatchedRuns:
        self.times += 1
        if again is None:
            first = set(range(1, self._looks + 1))
            return self._seen(WatchRequest((first,), first, (first,)))
        assert max(map(len, (*again[1].clients, again[1].reference))) <= self._looks
        return self._seen(again[1])

    def _seen(self, looked: WatchRequest) -> WatchedRuns:
        return WatchedRuns(
            (_of(self.whole.clients[0], looked.clients[0]),),
            _of(self.whole.reference, looked.reference),
            (_of(self.whole.noisy[0], looked.noisy[0]),),
        )


def _in_a_graph(seen: WatchedStep) -> WatchedStep:
    ops = tuple(msgspec.structs.replace(op, graph=1, forms=("",) * len(op.outputs)) for op in seen.ops)
    return msgspec.structs.replace(seen, ops=ops)


def _of(whole: WatchedStep, numbers: AbstractSet[int]) -> WatchedStep:
    """With values of these operations only, and of the first one, as in every graph."""
    kept = {*numbers, 1}
    ops = tuple(msgspec.structs.replace(op, seen=not op.outputs or op.number in kept) for op in whole.ops)
    tensors = {tensor for op in ops if op.seen for tensor in op.outputs}
    return msgspec.structs.replace(
        whole, ops=ops, values=tuple(each for each in whole.values if each.tensor in tensors)
    )


@pytest.mark.parametrize("looks", [12, 30, 1000])
@pytest.mark.parametrize("wrong", ["layer", "loss", "after"])
def test_the_culprit_is_that_of_all_values(wrong: str, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is: what is asked for is looked at, until nothing is."""
    monkeypatch.setattr(culprits, "LOOKS", looks)
    runs = _Runs(wrong, looks)
    expected = find_culprit(runs.whole.clients, runs.whole.reference, runs.whole.noisy)
    assert isinstance(expected, Culprit)
    assert culprits._in_runs(runs, [], consistent=False) == expected
    assert (runs.times == 1) == (looks == 1000)
    first = _Runs(wrong, 12)()
    assert find_culprit(first.clients, first.reference, first.noisy) != expected


@pytest.mark.parametrize("looks", [12, 30])
def test_what_is_right_has_none(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: what was not looked at is no mistake."""
    monkeypatch.setattr(culprits, "LOOKS", looks)
    found = culprits._in_runs(_Runs("nothing", looks), [], consistent=False)
    assert isinstance(found, NoCulprit)
    assert "no operation was found" in found.why


def test_right_values_save_what_is_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake at the end of many operations needs fewer runs than looking at all of them would."""
    monkeypatch.setattr(culprits, "LOOKS", 12)
    runs = _Runs("after", 12)
    assert isinstance(culprits._in_runs(runs, [], consistent=False), Culprit)
    assert runs.times < len(runs.whole.clients[0].ops) / 12 - 2


def test_a_report_that_was_not_looked_at_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who held it is known by its value only."""
    monkeypatch.setattr(culprits, "LOOKS", 12)
    runs = _Runs("loss", 12)
    first = runs()
    asked = WatchRequest.none(first.clients, first.noisy)
    held = next(op for op in runs.whole.clients[0].ops if op.type == "Mean")
    value = next(each.array for each in runs.whole.clients[0].values if each.tensor in held.outputs)
    find_culprit(first.clients, first.reference, first.noisy, [WrongReport(value)], asked=asked)
    assert held.number in asked.clients[0]


def test_it_ends_where_it_would_take_too_many_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so instead of naming what was seen by then."""
    monkeypatch.setattr(culprits, "LOOKS", 12)
    monkeypatch.setattr(culprits, "_RUNS", 2)
    found = culprits._in_runs(_Runs("loss", 12), [], consistent=False)
    assert isinstance(found, NoCulprit)
    assert "more operations than can be looked at in 2 runs" in found.why


def test_other_operations_in_the_second_run_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their numbers would be those of others."""
    monkeypatch.setattr(culprits, "LOOKS", 12)
    runs = _Runs("loss", 12)

    def watched_otherwise(again: tuple[WatchedRuns, WatchRequest] | None = None) -> WatchedRuns:
        seen = runs(again)
        fewer = msgspec.structs.replace(seen.reference, ops=seen.reference.ops[:-1])
        return seen if again is None else dataclasses.replace(seen, reference=fewer)

    found = culprits._in_runs(watched_otherwise, [], consistent=False)
    assert isinstance(found, NoCulprit)
    assert "made other operations when it was watched again" in found.why


def _normalized(strategy: Any, record: Any, by: str) -> None:
    """Keras's `fit`, which is of two graphs, one within the other."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x, y = random.normal(size=(8, 4)).astype("float32"), random.normal(size=(8, 1)).astype("float32")
    with strategy.scope():
        if by == "mean":
            normalized = keras.layers.Lambda(lambda x: x - tf.reduce_mean(x, axis=0))  # the layer
        else:
            normalized = keras.layers.LayerNormalization()
        model = keras.Sequential([keras.layers.Dense(4), normalized, keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0, callbacks=[record.keras_callback(model)])


@pytest.mark.full
@pytest.mark.parametrize(("by", "wrong"), [("mean", True), ("layer", False)])
def test_a_real_step_is_watched_in_several_runs(by: str, wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some hundred operations 60 are looked at in each run; what is right has no culprit then either."""
    monkeypatch.setattr(culprits, "LOOKS", 60)
    times = []

    def watched_again(*args: Any, **options: Any) -> WatchedRuns:
        times.append(options.get("again") is not None)
        return watch_step(*args, **options)

    monkeypatch.setattr(culprits, "watch_step", watched_again)
    verdict = verify(functools.partial(_normalized, by=by), "mirrored-2", explain=True)
    assert sum(times) >= (2 if wrong else 1)  # variables that are assigned what is right end it
    if wrong:
        assert verdict.culprit is not None, str(verdict)
        assert verdict.culprit.source.endswith("# the layer")
        assert "each replica's mean is over its own 4 of 8 examples" in verdict.culprit.relation
    else:
        assert verdict
        assert verdict.looked is not None
        assert "no operation was found that is given what is right" in (verdict.looked.why_not or "")
