"""A program whose numbers are others in each run is never consistent, and what can be seeded is."""

# Programs read the clock as they like.
# ruff: noqa: DTZ002, DTZ003, DTZ005, DTZ011

from __future__ import annotations

import functools
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import verify
from harness.evidence.reproducibility import first_difference
from harness.evidence.trace import Array, ClientTrace, Final, Value
from harness.recording.clock import moved_clock
from harness.recording.default_seeds import seeded_generators
from tests.harness._kept import counted, noted
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


def _eager(strategy: Any, record: Any, how: str = "", often: bool = False) -> None:
    """Each step is one eager call, whose data are drawn, and which moves a variable and draws before it asks a tape."""
    import os

    import tensorflow as tf

    rows = (np.frombuffer(os.urandom(36), np.uint8).reshape(12, 3) / 256).astype(np.float32)
    with strategy.scope():
        w = tf.Variable(tf.zeros(3), name="w", aggregation=tf.VariableAggregation.SUM)
        mean = tf.Variable(tf.zeros(3), name="mean", aggregation=tf.VariableAggregation.MEAN)

    def replica_step(x: Any) -> None:
        mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(x, axis=0))
        kept = tf.nn.dropout((1 + often) * (x - mean), 0.3)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(kept, w) - 1) ** 2) / 4
        w.assign_sub(0.1 * tape.gradient(loss, w))

    called = {"": replica_step, "lambda": None, "partial": functools.partial(replica_step)}[how]
    for x in strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(rows).batch(4)):
        strategy.run(called or (lambda x: replica_step(x)), args=(x,))  # noqa: PLW0108 - another one each time
        strategy.run(lambda x: tf.reduce_sum(w * x), args=(x,))
        record.step(variables=[w])


def _eager_wrong(strategy: Any, record: Any) -> None:
    _eager(strategy, record, often=strategy.num_replicas_in_sync > 1)


def _clock(strategy: Any, record: Any, how: str) -> None:
    """What begins in the same second draws the same; of few numbers two days may have the same in another order."""
    import datetime as dt
    import time

    seeds = {
        "time": lambda: int(time.time()),
        "strftime": lambda: int(time.strftime("%d%H%M%S")),
        "localtime": lambda: time.localtime().tm_mday,
        "datetime": lambda: int(dt.datetime.now().timestamp()),
        "date": lambda: dt.date.today().toordinal(),
    }
    _trained(strategy, record, np.random.default_rng(seeds[how]()).integers(0, 99, 8).astype(np.float32))


@pytest.mark.full
def test_data_without_a_seed_are_seeded_and_the_verdict_says_so() -> None:
    """`default_rng()` draws the same in each run, so a right program is consistent and a wrong one is not."""
    right = verify(_drawn, "mirrored-2", tier="exact")
    assert right, str(right)
    assert "random generator without a seed once" in right.to_json()["notes"][0]
    assert "note: NumPy was asked" in str(right)
    wrong = verify(_drawn_wrong, "mirrored-2")  # the bound must not grow with what the reruns draw
    assert wrong.outcome == "inconsistent", str(wrong)


@pytest.mark.full  # in the quick profile an unseeded shuffle of workers is: tests/harness/test_default_seeds.py
def test_workers_draw_each_their_own_as_in_a_cluster() -> None:
    """Workers whose data are not seeded train on different data, which equal seeds would hide: that is a condition."""
    verdict = verify(_drawn, "multi_worker-2", tier="exact")
    assert verdict, str(verdict)
    assert [each.code for each in verdict.conditions] == ["drawn_examples"]


@pytest.mark.full
def test_data_that_differ_from_run_to_run_are_given() -> None:
    """Each step is judged by the examples that the run had; the verdict says that one device draws others."""
    verdict = verify(_entropy, "mirrored-2")
    assert verdict, str(verdict)
    assert [each.code for each in verdict.conditions] == ["drawn_examples"]
    assert "given the run's own examples at 2 steps" in str(verdict)


@pytest.mark.full
@pytest.mark.parametrize("how", ["", "lambda", "partial"])
def test_eager_steps_are_given_what_the_run_had(how: str) -> None:
    """A step begins with its call, and not where a tape is asked for gradients."""
    verdict = verify(functools.partial(_eager, how=how), "mirrored-2", explain=False, prove=False)
    assert verdict, str(verdict)
    assert "given the run's own examples at 3 steps" in str(verdict)


@pytest.mark.full
def test_a_wrong_eager_step_is_found_by_what_the_run_had() -> None:
    """The wrong twin of those."""
    verdict = verify(_eager_wrong, "mirrored-2", explain=False, prove=False)
    assert {law.law for law in verdict.judgements if law.status == "broken"} == {"variables_match_reference"}


def _augmented(strategy: Any, record: Any) -> None:
    """Each worker adds noise to examples of its own, by the same seed."""
    import tensorflow as tf

    tf.random.set_seed(1)
    with strategy.scope():
        w = tf.Variable(tf.zeros(3), name="w", aggregation=tf.VariableAggregation.SUM)

    def data(context: Any) -> Any:
        rows = tf.data.Dataset.from_tensor_slices(np.arange(48, dtype=np.float32).reshape(16, 3) / 48)
        shard = rows.shard(context.num_input_pipelines, context.input_pipeline_id)
        drawn = shard.map(lambda x: x + tf.random.normal([3]))
        return drawn.batch(context.get_per_replica_batch_size(4))

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1) ** 2) / 4
        w.assign_sub(0.1 * tape.gradient(loss, w))

    step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
    for x in strategy.distribute_datasets_from_function(data):
        step(x)
        record.step(variables=[w])


@pytest.mark.full
def test_what_a_seed_of_the_program_draws_is_drawn() -> None:
    """By another seed one device is given other examples, also where the program says by which."""
    verdict = verify(_augmented, "multi_worker-2", explain=False, prove=False)
    assert verdict, str(verdict)
    assert [each.code for each in verdict.conditions] == ["drawn_examples"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("program", "outcome"),
    [
        (counted(often=True), "abstained"),
        (counted(often=False), "consistent"),
        (noted(first=True), "abstained"),
        (noted(first=False), "consistent"),
    ],
)
def test_examples_that_follow_from_what_a_program_keeps_are_not_drawn(program: Any, outcome: str) -> None:
    """What replicas have written into a table, or left out of an array, is given to the next steps and never judged."""
    verdict = verify(program, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == outcome, str(verdict)
    assert verdict.conditions == ()
    if outcome == "abstained":
        assert "the run was given examples that one device is not given" in " ".join(str(verdict).split())


def _by_number(strategy: Any, record: Any) -> None:
    """Each replica is given noise that was drawn by its number."""
    import tensorflow as tf

    with strategy.scope():
        w = tf.Variable(tf.ones([3]), name="w", aggregation=tf.VariableAggregation.SUM)
    rows = 8 // strategy.num_replicas_in_sync

    def replica_step(x: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(x, w) - 1) ** 2) / 8
        w.assign_sub(0.1 * tape.gradient(loss, w))

    step = tf.function(lambda x: strategy.run(replica_step, args=(x,)))
    for number in range(3):
        noise = strategy.experimental_distribute_values_from_function(  # by number
            lambda context, number=number: tf.random.stateless_normal(
                [rows, 3], [number, context.replica_id_in_sync_group]
            )
        )
        step(noise)
        record.step(variables=[w])


@pytest.mark.full
def test_examples_that_are_made_for_each_replica_by_its_number_are_told() -> None:
    """With the line: one device makes others, whatever it draws."""
    verdict = verify(_by_number, "mirrored-2", explain=False, prove=False)
    assert verdict.outcome == "abstained", str(verdict)
    assert "for each replica by its number (test_reproducibility.py:" in str(verdict.why_abstained)


@pytest.mark.parametrize(
    "how", ["datetime", *(pytest.param(how, marks=pytest.mark.full) for how in ("time", "strftime"))]
)
def test_a_seed_from_the_clock_is_a_condition_though_two_runs_begin_together(how: str) -> None:
    """The reference sees another day."""
    verdict = verify(functools.partial(_clock, how=how), "default", tier="exact")
    assert verdict, str(verdict)
    assert [each.code for each in verdict.conditions] == ["drawn_examples"]


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


def _first(one: ClientTrace, other: ClientTrace) -> str:
    found = first_difference(one, other)
    assert found is not None
    return found.text


@pytest.mark.parametrize(("value", "share"), [(1.0, 0.0), (1 + 2.0**-20, 2.0**-20), (2.0, 0.5), (float("nan"), np.inf)])
def test_the_size_of_the_difference_tells_threads_from_other_data(value: float, share: float) -> None:
    """As a share of the array's largest element, so that a small element does not count for more than it is."""
    big = 1.0
    one, other = (client(step(1, variables={"w": np.asarray([1e-9, x])})) for x in (big, value))
    found = first_difference(one, other)
    assert (0.0 if found is None else found.share) == pytest.approx(share, rel=1e-3)


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
    assert _first(*_two(**changes)).startswith(text)


def test_other_differences_are_named_too() -> None:
    """Steps and an end that only one run has, an order of examples, parts."""
    one, _ = _two()
    shorter = msgspec.structs.replace(one, steps=one.steps[:1])
    assert _first(one, shorter) == "one recorded 2 steps, the other 1"
    assert _first(one, msgspec.structs.replace(one, final=None)) == "only one called record.final"
    orders = [client(step(1, examples=(ids,))) for ids in ((1, 2), (2, 1))]
    assert _first(*orders) == "step 1, examples: in another order"
    parts = [client(step(1, variables={"w": [1.0] * count})) for count in (1, 2)]
    assert _first(*parts) == "step 1, variables 'w': in 1 and 2 parts"


def test_a_moved_clock_is_ahead_wherever_it_is_read() -> None:
    """By function, class and method; what is given a time shows that time, and objects of before count as before."""
    import datetime as dt
    import time

    before, day = dt.datetime.now(), 86_400.0
    with moved_clock(day):
        assert time.time() - before.timestamp() >= day
        assert time.time_ns() / 1e9 - before.timestamp() >= day
        assert time.clock_gettime(time.CLOCK_REALTIME) - before.timestamp() >= day
        assert time.mktime(time.localtime()) - before.timestamp() > day - 2
        assert time.strftime("%Y-%m-%d") == str(dt.date.today()) != str(before.date())
        assert (dt.datetime.now() - before).total_seconds() >= day
        assert dt.datetime.today() - before >= dt.timedelta(seconds=day)
        assert dt.datetime.utcnow() - before > dt.timedelta(hours=5)
        assert time.strftime("%Y", time.gmtime(0)) == "1970"
        assert isinstance(before, dt.datetime)
        assert not isinstance(before.date(), dt.datetime)
    assert time.time() - before.timestamp() < day / 2
    assert dt.datetime.now() - before < dt.timedelta(hours=1)


def test_a_clock_that_goes_faster_does_so_wherever_it_is_read() -> None:
    """Also those that count from the start of the machine; afterwards all go as before."""
    import datetime as dt
    import time

    real = time.monotonic
    with moved_clock(0.0, 1000.0):
        clocks = (time.time, time.monotonic, time.perf_counter)
        began, day, told = [clock() for clock in clocks], dt.datetime.now(), real()
        while real() - told < 0.01:
            pass
        assert all(clock() - before >= 10.0 for clock, before in zip(clocks, began, strict=True))
        assert (dt.datetime.now() - day).total_seconds() >= 10.0
    assert time.monotonic is real


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
