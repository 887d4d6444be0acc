"""A program whose numbers are others in each run is never consistent, and what can be seeded is."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness import verify
from harness._unseeded import seeded_generators
from harness.reproduced import first_difference
from harness.search import survives
from harness.trace import Array, ClientTrace, Final, Value
from simulator import FaultPlan, LockstepError
from tests.harness._traces import client, step, values, variable


def _trained(strategy: Any, record: Any, data: Any, scale: int = 1) -> None:
    import tensorflow as tf

    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(data).batch(4))
    with strategy.scope():
        w = tf.Variable([0.5], name="w", aggregation=tf.VariableAggregation.SUM)

    def replica_step(x: Any) -> Any:
        loss = tf.reduce_sum(w * x) / 4
        w.assign_sub([scale * tf.reduce_sum(x) / 4])
        return loss

    for x in dataset:
        record.step(loss=strategy.reduce("SUM", strategy.run(replica_step, args=(x,)), axis=None), variables=[w])


def _drawn(strategy: Any, record: Any) -> None:
    _trained(strategy, record, np.random.default_rng().integers(0, 9, 8).astype(np.float32))


def _drawn_wrong(strategy: Any, record: Any) -> None:
    data = np.random.default_rng().integers(0, 9, 8).astype(np.float32)
    _trained(strategy, record, data, scale=strategy.num_replicas_in_sync)


def _entropy(strategy: Any, record: Any) -> None:
    import os

    _trained(strategy, record, np.frombuffer(os.urandom(8), np.uint8).astype(np.float32))


def _clock(strategy: Any, record: Any) -> None:
    """What begins in the same second draws the same."""
    import time

    _trained(strategy, record, np.random.default_rng(int(time.time())).integers(0, 9, 8).astype(np.float32))


def _racing(strategy: Any, record: Any) -> None:
    """Stands for numbers that depend on how threads take turns: on one thread they are the same each time."""
    import os

    import tensorflow as tf

    alone = tf.config.threading.get_inter_op_parallelism_threads() == 1
    noise = 0 if alone else int.from_bytes(os.urandom(2), "little")
    _trained(strategy, record, np.arange(8).astype(np.float32) + noise)


def test_data_without_a_seed_are_seeded_and_the_verdict_says_so() -> None:
    """`default_rng()` draws the same in each run, so a right program is consistent and a wrong one is not."""
    right = verify(_drawn, "mirrored-2", tier="exact")
    assert right, str(right)
    assert "random generator without a seed once" in right.to_json()["notes"][0]
    assert "note: NumPy was asked" in str(right)
    wrong = verify(_drawn_wrong, "mirrored-2")  # the bound must not grow with what the reruns draw
    assert wrong.outcome == "inconsistent", str(wrong)


def test_workers_draw_each_their_own_as_in_a_cluster() -> None:
    """Workers whose data are not seeded train on different data, which equal seeds would hide."""
    verdict = verify(_drawn, "multi_worker-2", tier="exact")
    assert verdict.outcome == "inconsistent", str(verdict)


def test_numbers_that_differ_from_run_to_run_are_not_judged() -> None:
    """Neither consistent nor inconsistent: the first value that differs is named, with what usually causes it."""
    verdict = verify(_entropy, "mirrored-2")
    assert verdict.outcome == "abstained"
    assert not verdict
    assert not verdict.judgements
    assert "not reproducible" in str(verdict)
    assert "the runs differ: step 1, loss: " in str(verdict).replace("\n    ", " ")
    again = verify(_entropy, "multi_worker-2")  # found once, and kept
    assert again.abstained == verdict.abstained
    with pytest.raises(LockstepError, match="not reproducible"):
        survives(_entropy, "mirrored-2", FaultPlan())


def test_a_seed_from_the_clock_is_found_though_two_runs_begin_together() -> None:
    """The second run of the reference sees another day."""
    verdict = verify(_clock, "default", tier="exact")
    assert verdict.outcome == "abstained", str(verdict)
    assert "the clock" in str(verdict)


def test_what_threads_explain_is_judged_on_one_thread() -> None:
    """A reference that differs on several threads only is made on one, which the verdict says."""
    verdict = verify(_racing, "default")
    assert verdict.outcome == "inconsistent"  # the run itself has several threads
    assert "the reference ran on a single thread" in verdict.notes[0]


def _two(**changes: Any) -> tuple[ClientTrace, ClientTrace]:
    final = Final(1.0, predictions=values({"y": np.ones(2, np.float32)}))
    one = client(step(1, loss=1.0, variables={"w": [np.ones(2)]}, examples=((1, 2),)), step(2, loss=2.0), final=final)
    moved = msgspec.structs.replace(one.steps[1], at=99.0, **changes)
    return one, msgspec.structs.replace(one, steps=(one.steps[0], moved))


def test_the_clock_is_no_difference() -> None:
    """Runs are the same if they recorded the same, whenever that was; NaN is the same as the same NaN."""
    assert first_difference(*_two()) is None
    one, other = (client(step(1, loss=float("nan"))) for _ in range(2))
    assert first_difference(one, other) is None


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"loss": Value("loss", (Array.of(2.5),))}, "step 2, loss: 2.0 against 2.5"),
        ({"loss": None}, "step 2, loss: recorded in one run only"),
        ({"variables": (variable("w", 1.0),)}, "step 2, variables 'w': recorded in one run only"),
        ({"examples": ((3,),)}, "step 2, examples: None and 3"),
        ({"epoch": 2}, "step 2, other values were recorded"),
    ],
)
def test_the_first_difference_is_named(changes: dict[str, Any], text: str) -> None:
    """Step, observable, element and both values."""
    assert (first_difference(*_two(**changes)) or "").startswith(text)


def test_other_differences_are_named_too() -> None:
    """Steps and an end that only one run has, an order of examples, parts."""
    one, _ = _two()
    assert (
        first_difference(one, msgspec.structs.replace(one, steps=one.steps[:1])) == "one recorded 2 steps, the other 1"
    )
    assert first_difference(one, msgspec.structs.replace(one, final=None)) == "only one called record.final"
    orders = [client(step(1, examples=(ids,))) for ids in ((1, 2), (2, 1))]
    assert first_difference(*orders) == "step 1, examples: in another order"
    parts = [client(step(1, variables={"w": [1.0] * count})) for count in (1, 2)]
    assert first_difference(*parts) == "step 1, variables 'w': in 1 and 2 parts"


def test_generators_without_a_seed_are_the_same_in_each_run_and_others_in_each_client() -> None:
    """Seeds are given in order, whatever makes the generator; a seed of the program's own is left alone."""

    def drawn_by(number: int) -> tuple[list[float], int]:
        with seeded_generators(20, number) as drawn:
            made = [np.random.default_rng().random(), np.random.Generator(np.random.PCG64()).random()]
            made.append(np.random.default_rng(7).random())
        return [float(value) for value in made], drawn.times

    first, times = drawn_by(0)
    assert times == 2
    assert drawn_by(0)[0] == first
    other = drawn_by(1)[0]
    assert [a == b for a, b in zip(first, other, strict=True)] == [False, False, True]
    assert first[0] != np.random.default_rng().random()


def test_a_legacy_generator_with_a_seed_is_not_worth_a_note() -> None:
    """`RandomState(7)` asks for entropy before it takes its seed."""
    with seeded_generators(20, 0) as drawn:
        assert np.random.RandomState(7).rand() == np.random.RandomState(7).rand()
    assert drawn.times == 0
