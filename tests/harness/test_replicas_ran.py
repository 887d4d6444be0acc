"""The law `replicas_ran`, and the part of `tasks_connected` that asks what workers have combined."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import verify
from harness.evidence.counters import Work
from harness.evidence.links import LinkBytes, Links
from harness.evidence.trace import OUTSIDE, RunTrace
from harness.judging.laws import Case, Judgement, all_laws
from harness.judging.tolerance import ExactTolerance
from harness.judging.verdict import Verdict
from tests.harness._programs import exact, mlp
from tests.harness._traces import client, step, variable


def _broken(verdict: Verdict) -> set[str]:
    return {judgement.law for judgement in verdict.judgements if judgement.status == "broken"}


def _data(step: int) -> Any:
    return np.arange(8, dtype=np.float32).reshape(4, 2) + step


def _by_itself(strategy: Any, record: Any) -> None:
    """Every client trains a variable of its own on whole batches; what it reports of the loss comes from all."""
    import tensorflow as tf

    w = tf.Variable([1.0, 2.0], name="w")
    for number in range(3):
        w.assign_sub(tf.reduce_sum(_data(number), axis=0) / 8)
        loss = strategy.reduce("MEAN", tf.reduce_sum(w), axis=None)
        record.step(loss=loss, variables=[w])


def _by_itself_in_the_scope(strategy: Any, record: Any) -> None:
    """The same in a `tf.function`, on every replica, with a loss that the replicas combine in the step."""
    import tensorflow as tf

    w = tf.Variable([1.0, 2.0], name="w")

    def replica_step(x: Any) -> Any:
        if tf.distribute.get_replica_context().replica_id_in_sync_group == 0 or strategy.num_replicas_in_sync > 1:
            w.assign_sub(tf.reduce_sum(x, axis=0) / 8)
        return tf.distribute.get_replica_context().all_reduce("MEAN", tf.reduce_sum(w))

    @tf.function
    def train_step(x: Any) -> Any:
        return strategy.run(replica_step, args=(x,))

    for number in range(3):
        losses = train_step(tf.constant(_data(number)))
        record.step(loss=strategy.experimental_local_results(losses)[0], variables=[w])


def _single_numbers(strategy: Any, record: Any, *, together: bool, eager: bool = False) -> None:
    """A state of single numbers, and as many of them reported as combined.

    `together` it is trained by what all replicas sum up; else each client has all of the data for itself, and sums up
    nothing but the loss.
    """
    import tensorflow as tf

    with strategy.scope():
        once = tf.VariableAggregation.ONLY_FIRST_REPLICA
        w, mean = (tf.Variable(1.0, name=name, aggregation=once) for name in ("w", "mean"))

    def replica_step(x: Any) -> Any:
        first, every = 0, 1
        if together:
            context = tf.distribute.get_replica_context()
            first, every = context.replica_id_in_sync_group, context.num_replicas_in_sync
        return tf.reduce_sum(x[first::every]) / 8

    def train_step(x: Any) -> Any:
        part = strategy.run(replica_step, args=(x,))
        whole = strategy.reduce("SUM", part, axis=None) if together else strategy.experimental_local_results(part)[0]
        mean.assign(0.5 * mean + whole)
        w.assign_sub(mean.read_value() / 8)
        return strategy.reduce("SUM" if together else "MEAN", part, axis=None)

    step = train_step if eager else tf.function(train_step)
    for number in range(3):
        loss = step(tf.constant(_data(number)))
        record.step(loss=loss, variables=[w, mean], metrics={"rate": 0.125, "number": float(number)})


def _on_one_device(strategy: Any, record: Any) -> None:
    import tensorflow as tf

    w = tf.Variable([1.0, 2.0], name="w")
    for number in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * _data(number)) / 8
        w.assign_sub(tape.gradient(loss, w))
        record.step(loss=loss, variables=[w])


def _beside_the_strategy(strategy: Any, record: Any) -> None:
    """Enters every replica, but takes gradients outside of them."""
    import tensorflow as tf

    strategy.run(lambda: tf.constant(0.0))
    _on_one_device(strategy, record)


# Of the trainings of all workers scenarios/ are full; what is not one is held against made-up work below as well.
@pytest.mark.parametrize("program", [_on_one_device, pytest.param(_beside_the_strategy, marks=pytest.mark.full)])
@pytest.mark.parametrize("strategy", ["mirrored-2", pytest.param("central_storage-2", marks=pytest.mark.full)])
def test_a_training_on_one_device_is_not_one_of_several_replicas(program: Any, strategy: str) -> None:
    """All numbers are right, and no replica but one has done anything."""
    verdict = verify(program, strategy, tier="exact")
    assert _broken(verdict) == {"replicas_ran"}, str(verdict)
    assert "explanation" not in str(verdict)


@pytest.mark.parametrize("program", [_by_itself, pytest.param(_by_itself_in_the_scope, marks=pytest.mark.full)])
def test_11_workers_that_combine_only_what_they_report_are_not_one_training(program: Any) -> None:
    """All numbers are right and bytes are exchanged, but no variable depends on another worker."""
    verdict = verify(program, "multi_worker-2", tier="exact")
    assert {"tasks_connected"} <= _broken(verdict) <= {"tasks_connected", "replicas_ran"}, str(verdict)
    assert "no more than was reported" in str(verdict)


@pytest.mark.full
@pytest.mark.parametrize("eager", [False, pytest.param(True, marks=pytest.mark.full)])
def test_11_single_numbers_are_followed_to_what_they_train(eager: bool) -> None:
    """As many are combined as reported, whether they train or not: what they are used for tells the two apart."""
    right = functools.partial(_single_numbers, together=True, eager=eager)
    alone = functools.partial(_single_numbers, together=False, eager=eager)
    verdict = verify(right, "multi_worker-2", tier="exact")
    assert verdict, str(verdict)
    assert _broken(verify(alone, "multi_worker-2", tier="exact")) == {"tasks_connected"}


@pytest.mark.full  # in the quick profile the right one of those above, and each cell of several workers in scenarios/
@pytest.mark.parametrize("program", [exact(), mlp()])
def test_a_training_of_all_workers_shows_it(program: Any) -> None:
    """Gradients that are reduced in the step, in a graph or not, connect the workers; each replica runs."""
    verdict = verify(program, "multi_worker-2")
    assert verdict, str(verdict)
    held = {judgement.law for judgement in verdict.judgements if judgement.status == "held"}
    assert {"replicas_ran", "tasks_connected"} <= held


def _judge(law: str, *works: Work | None, state: Any = (1.0, 2.0), replicas: int = 2, **rest: Any) -> Judgement:
    clients = len(works)
    made = [
        client(
            *(step(k, loss=1.0, variables={"w": k * np.asarray(state, np.float32)}, **rest) for k in (1, 2, 3)),
            task=f"worker:{number}",
            clients=clients,
            replicas=replicas,
            work=work,
        )
        for number, work in enumerate(works)
    ]
    run = RunTrace(tuple(made))
    tasks = tuple(f"worker:{number}" for number in range(clients))
    links = Links(tasks, tuple(LinkBytes(a, b, 9000, 8000, 1) for a in tasks for b in tasks if a != b), 1.0)
    return next(found for found in all_laws() if found.id == law).judge(Case(run, run, ExactTolerance(), links=links))


BOTH = {0: 3, 1: 3}
PAIR = ("worker:0", "worker:1")


@pytest.mark.parametrize(
    ("work", "status"),
    [
        (Work(entered=BOTH, gradients=BOTH), "held"),
        (Work(entered=BOTH), "held"),  # nothing was differentiated
        (Work(entered=BOTH, gradients={**BOTH, OUTSIDE: 1}), "held"),
        (Work(entered={0: 3}, gradients={0: 3}), "broken"),
        (Work(), "broken"),
        (Work(entered=BOTH, gradients={0: 3}), "broken"),
        (Work(entered=BOTH, gradients={OUTSIDE: 3}), "broken"),
        (Work(entered=BOTH, gradients={OUTSIDE: 3}, reduced=1), "held"),  # of a step that was traced outside first
        (None, "not_judged"),  # killed by a fault
    ],
)
def test_every_replica_has_to_run(work: Work | None, status: str) -> None:
    """One that never began, or in which no gradient was taken although one was elsewhere, is found."""
    assert _judge("replicas_ran", work).status == status


def test_replicas_are_not_asked_for_what_needs_none() -> None:
    """One replica, parameter servers, or a program that only reads its data."""
    assert _judge("replicas_ran", Work(), replicas=1).status == "not_judged"
    run = RunTrace((client(step(1, examples=((1,), (2,))), replicas=2, work=Work()),))
    law = next(found for found in all_laws() if found.id == "replicas_ran")
    assert law.judge(Case(run, run, ExactTolerance())).status == "not_judged"


def test_who_trains_nothing_has_nothing_to_combine() -> None:
    """Variables that stay as they are, or that each replica keeps for itself until they are read."""
    law = next(found for found in all_laws() if found.id == "tasks_connected")
    links = Links(("worker:0", "worker:1"), (LinkBytes("worker:0", "worker:1", 9, 9, 1),) * 2, 1.0)
    links = msgspec.structs.replace(links, links=(*links.links, LinkBytes("worker:1", "worker:0", 9, 9, 1)))
    for moved, kind, status in ((0.0, "mirrored", "held"), (1.0, "on_read", "held"), (1.0, "mirrored", "broken")):
        steps = [
            step(k, variables={"w": variable("w", [np.full(2, k * moved)], kind, aggregated=np.full(2, k * moved))})
            for k in (1, 2)
        ]
        clients = [client(*steps, task=f"worker:{number}", clients=2, replicas=2, work=Work()) for number in (0, 1)]
        run = RunTrace(tuple(clients))
        assert law.judge(Case(run, run, ExactTolerance(), links=links)).status == status


@pytest.mark.parametrize(
    ("work", "state", "status"),
    [
        (Work(combined={2: 3}), (1.0, 2.0), "held"),  # as many as the gradient has elements
        (Work(combined={0: 1}), (1.0, 2.0), "held"),  # of a shape that is not known
        (Work(returned={1: 3, 2: 3}), (1.0, 2.0), "held"),  # a program that reduces gradients itself
        (Work(combined={1: 3}), (1.0,), "held"),  # a state of single numbers
        (Work(returned={1: 6}), (1.0,), "held"),  # once the loss, once the gradient
        (Work(returned={1: 3}), (1.0, 2.0), "broken"),  # the loss
        (Work(returned={1: 3}), (1.0,), "broken"),
        (Work(combined={1: 3}), (1.0, 2.0), "broken"),  # the loss, in the step
        (Work(combined={1: 6}), (1.0, 2.0), "held"),  # a search that follows from two single numbers a step
        (Work(returned={1: 6}), (1.0, 2.0), "held"),
        (Work(returned={1: 3}, changed=("w",)), (1.0, 2.0), "held"),  # what was returned went into the variable
        (Work(returned={1: 3}, changed=("v",)), (1.0, 2.0), "broken"),
        (Work(), (1.0, 2.0), "broken"),
        (None, (1.0, 2.0), "held"),
    ],
)
def test_more_than_what_is_reported_has_to_be_combined(work: Work | None, state: Any, status: str) -> None:
    """What is reported three times connects nobody."""
    assert _judge("tasks_connected", work, work, state=state).status == status


def test_who_has_the_same_to_contribute_has_nothing_to_combine() -> None:
    """What is combined eagerly may train a state of single numbers, if the workers had different things."""
    for second, status in ((5, "broken"), (6, "held")):
        works = [Work(returned={1: 3}, handed={1: 3}, contributed=number) for number in (5, second)]
        assert _judge("tasks_connected", *works, state=(1.0,)).status == status
        assert _judge("tasks_connected", *works).status == "broken"


def test_all_that_changes_has_to_depend_on_others() -> None:
    """A mean of reported losses that is kept in a variable of its own trains nothing."""
    law = next(found for found in all_laws() if found.id == "tasks_connected")
    links = Links(PAIR, tuple(LinkBytes(a, b, 9000, 8000, 1) for a in PAIR for b in PAIR if a != b), 1.0)
    for changed, status in ((("mean",), "broken"), (("mean", "w"), "held")):
        steps = [step(k, loss=1.0, variables={"w": np.full(2, 1.0 * k), "mean": 1.0 * k}) for k in (1, 2)]
        work = Work(returned={1: 2}, changed=changed)
        run = RunTrace(tuple(client(*steps, task=task, clients=2, replicas=2, work=work) for task in PAIR))
        assert law.judge(Case(run, run, ExactTolerance(), links=links)).status == status
