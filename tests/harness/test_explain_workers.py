"""Rules about workers that each do something by themselves, and what other rules need before they speak of it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import Array, RunTrace, SeenVariable, Start, Step, merge
from harness.judging.explain import all_rules, explain
from harness.judging.laws import Case
from harness.judging.tolerance import DerivedTolerance
from tests._present import present
from tests.harness._explaining import explained
from tests.harness._traces import client, step


def _case(
    workers: list[list[Step]], reference: list[Step], begin: list[Any] | None = None, kind: str = "copies"
) -> Case:
    """Workers of one replica, of which each begins with a value of `w`, a variable of this kind, if that is known."""
    count = len(workers)
    clients = [client(*steps, task=f"worker:{k}", clients=count, replicas=count) for k, steps in enumerate(workers)]
    if begin is not None:
        starts = [Start(0.0, (SeenVariable("w", kind, (Array.of(value),)),)) for value in begin]
        clients = [msgspec.structs.replace(each, start=start) for each, start in zip(clients, starts, strict=True)]
    truth = RunTrace((client(*reference),))
    return Case(merge(clients), truth, DerivedTolerance(truth, [truth]))


def _rates(*rates: float) -> list[Step]:
    """The rate at each step beside a weight, which begins to differ one step later than the rate."""
    return [step(k, variables={"w": np.float32(k), "rate": np.float32(rate)}) for k, rate in enumerate(rates, 1)]


def test_a_rate_that_each_worker_sets_is_no_lost_update() -> None:
    """It is told with its values, and without a word of a coordinator, which there is none."""
    case = _case([_rates(0.2, 0.2), _rates(0.2, 0.02)], _rates(0.2, 0.02))
    found = explained(case)
    assert found.rule == "set_by_each_worker"
    assert "At step 2 'rate' is 0.2 on worker:0 and 0.02 on worker:1" in found.text
    assert "Coordinator" not in found.text


def test_what_is_trained_or_counted_is_not_said_to_be_set() -> None:
    """A weight whose copies differ was updated apart, and a counter that differs counts updates."""

    def steps(last: float, dtype: Any) -> list[Step]:
        return [
            step(k, gradients={"w": np.float32(1)}, variables={"w": dtype(value)}) for k, value in ((1, 1), (2, last))
        ]

    trained = _case([steps(1, np.float32), steps(2, np.float32)], steps(2, np.float32))
    assert explained(trained).rule == "update_lost"
    counted = _case([steps(1, np.int64), steps(2, np.int64)], steps(2, np.int64))
    assert explained(counted).rule == "update_lost"


def test_a_number_that_moves_on_every_worker_may_be_trained() -> None:
    """Where no gradients are known only one that stays what it was on some worker is known to be set."""

    def steps(*values: float) -> list[Step]:
        return [step(k, variables={"w": np.float32(value)}) for k, value in enumerate(values, 1)]

    moved = explain(_case([steps(1, 2), steps(1, 3)], steps(1, 2.5)))
    assert moved is None or moved.rule != "set_by_each_worker"
    kept = explained(_case([steps(1, 1), steps(1, 3)], steps(1, 2.5)))
    assert kept.rule == "set_by_each_worker"


def test_a_lost_update_is_cured_with_a_coordinator_only_where_there_is_one() -> None:
    """Copies are those of a strategy that mirrors them."""
    run = [
        step(1, variables={"w": [np.ones(3)] * 3}),
        step(2, variables={"w": [2 * np.ones(3), np.ones(3), 2 * np.ones(3)]}),
    ]
    reference = [step(1, variables={"w": np.ones(3)}), step(2, variables={"w": 2 * np.ones(3)})]
    truth = RunTrace((client(*reference),))
    found = explained(Case(RunTrace((client(*run, replicas=3),)), truth, DerivedTolerance(truth, [truth])))
    assert found.rule == "update_lost"
    assert "Coordinator" not in found.text


@pytest.mark.parametrize(("begin", "rule"), [((1.0, 4.0), "not_broadcast"), ((1.0, 1.0), "gradients_not_reduced")])
def test_other_beginnings_are_no_gradients_that_are_not_reduced(begin: tuple[float, float], rule: str) -> None:
    """Only copies that began alike are said to have drifted apart."""
    first, second = (
        [step(1, variables={"w": start + np.asarray(more)})] for start, more in zip(begin, _MOVES, strict=True)
    )
    case = _case([first, second], [step(1, variables={"w": np.asarray([1.5, 1.5])})], [np.full(2, x) for x in begin])
    found = explained(case)
    assert found.rule == rule
    if rule == "not_broadcast":
        assert "Before step 1 'w'[0] is 1 on worker:0 and 4 on worker:1" in found.text


def test_workers_that_begin_a_resumed_part_apart_have_not_restored_the_same() -> None:
    """A scope would not make equal what each of them restores."""
    begin = [np.full(2, 1.0), np.full(2, 4.0)]
    workers = [[step(5, variables={"w": start + np.asarray(more)})] for start, more in zip(begin, _MOVES, strict=True)]
    case = _case(workers, [step(5, variables={"w": np.asarray([1.5, 1.5])})], begin)
    found = explained(case)
    assert found.rule == "restored_on_some_workers"
    assert "Before step 5 'w'[0] is 1 on worker:0 and 4 on worker:1: each worker has what it restored" in found.text
    assert "Every worker restores the same checkpoint" in found.text


def test_a_rate_that_a_worker_sets_before_the_first_step_was_made_the_same() -> None:
    """A scope has given it to all of them; what is made outside of one was not."""
    for kind, rule in (("copies", "set_by_each_worker"), ("plain", "not_broadcast")):
        rates = (np.float32(0.1), np.float32(0.05))
        workers = [[step(1, variables={"w": rate})] for rate in rates]
        case = _case(workers, [step(1, variables={"w": rates[0]})], [*rates], kind)
        assert explained(case).rule == rule
        assert "Before step 1 'w' is 0.1 on worker:0 and 0.05 on worker:1" in explained(case).text


_MOVES = ((0.25, 0.5), (0.75, 0.125))


def _logs(logged: str | None, *factors: float) -> Case:
    """Two workers that report the loss of a batch times these, by a callback, from right variables."""

    def steps(of: tuple[float, ...]) -> list[Step]:
        return [
            msgspec.structs.replace(
                step(k, loss=np.float32(0.3 * k * factor), variables={"w": np.float32(k)}), logged=logged
            )
            for k, factor in enumerate(of, 1)
        ]

    return _case([steps(factors), steps(factors)], steps((1.0,) * len(factors)))


def test_what_tf_keras_logs_is_no_mistake_of_the_program() -> None:
    """Its batch logs are times the workers; who reports a loss by itself, or Keras 3, has added it up."""
    found = explained(_logs("tf_keras", 2.0, 2.0))
    assert found.rule == "batch_logs_times_workers"
    assert "distribute_reduction_method = 'first'" in found.text
    assert explained(_logs("keras", 2.0, 2.0)).rule == "loss_times_replicas"
    assert explained(_logs(None, 2.0, 2.0)).rule == "loss_times_replicas"
    other = explain(_logs("tf_keras", 2.0, 3.0))
    assert other is None or other.rule != "batch_logs_times_workers"


def test_an_update_of_one_worker_alone_is_lost_on_the_other() -> None:
    """In the first step too, where what they began with is known; it is no gradient of each worker's own."""
    begin, moved = np.full(2, 1.0), np.asarray([1.25, 1.5])
    workers = [[step(1, variables={"w": moved})], [step(1, variables={"w": begin})]]
    found = explained(_case(workers, [step(1, variables={"w": moved})], [begin, begin]))
    assert found.rule == "update_lost"
    assert "the copies of w on replica 1 keep the value that they began it with" in found.text
    rules = [rule.id for rule in all_rules() if rule.explain(_case(workers, [step(1, variables={"w": moved})]))]
    assert rules == []
    apart = [[step(1, variables={"w": moved + k})] for k in (1, 2)]
    assert explained(_case(apart, [step(1, variables={"w": moved})], [begin, begin])).rule == "gradients_not_reduced"


@pytest.mark.parametrize(("alike", "rule"), [(True, "loss_times_replicas"), (False, "mean_of_replica_means")])
def test_equal_losses_are_no_means_of_unequal_numbers_of_examples(alike: bool, rule: str) -> None:
    """Whatever their weights, equal numbers have the same mean."""
    losses = (np.float32(6.0), np.float32(6.0) if alike else np.float32(3.0))
    truth = 6.0 if alike else 6.0 * 4 / 7 + 3.0 * 3 / 7
    ids = ((1, 2, 3, 4), (5, 6, 7))
    run = [step(1, loss=[*losses], examples=ids)]
    reference = [step(1, loss=np.float32(truth), examples=(sum(ids, ()),))]
    trace, whole = RunTrace((client(*run, replicas=2),)), RunTrace((client(*reference),))
    assert explained(Case(trace, whole, DerivedTolerance(whole, [whole]))).rule == rule


@pytest.mark.parametrize("packed", [(), (("train.py:9", 1),)])
def test_copies_that_pack_believes_are_told_by_their_line(packed: tuple[tuple[str, int], ...]) -> None:
    """What is computed of them may be the first device's everywhere."""
    run = client(step(1, variables={"w": np.float32(2)}), packed=packed)
    truth = RunTrace((client(step(1, variables={"w": np.float32(1)})),))
    found = explain(Case(RunTrace((run,)), truth, DerivedTolerance(truth, [truth])))
    if packed:
        assert present(found).rule == "copies_packed"
        assert "At step 1 train.py:9 gives the devices different copies" in present(found).text
    else:
        assert found is None or found.rule != "copies_packed"
