"""The rules about accumulation, statistics, random numbers, metrics, batches and updates, on hand-made numbers."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.trace import RunTrace, Seen, Step
from harness.judging.explain import all_rules, closest, explain
from harness.judging.laws import Case
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.tolerance import DerivedTolerance
from harness.judging.verdict import Verdict
from tests.harness._explaining import rule_of, text_of
from tests.harness._replicated import case as trained
from tests.harness._traces import client, step, variable

REPLICAS = pytest.mark.parametrize("replicas", [2, 3])


def _case(run: list[Step], reference: list[Step], replicas: int = 2, **rest: Any) -> Case:
    trace = RunTrace((client(*run, replicas=replicas, **rest),))
    truth = RunTrace((client(*reference),))
    return Case(trace, truth, DerivedTolerance(truth, [truth]))


def _accumulated(times: list[float], replicas: int = 1, momentum: float = 0.0) -> list[Step]:
    """Three updates of four slices; `times` is how often each slice of an update counts."""
    rng = np.random.default_rng(1)
    w, slot, steps = np.ones(12), np.zeros(12), []
    for update in range(3):
        slices = rng.standard_normal((4, 12))
        for k, gradient in enumerate(slices):
            if k == 3:
                slot = momentum * slot + sum(t * g for t, g in zip(times, slices, strict=True)) / 4
                w = w - 0.5 * slot
            parts = [np.float32(gradient / replicas)] * replicas
            steps.append(step(4 * update + k + 1, gradients={"w": parts}, variables={"w": np.float32(w)}))
    return steps


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize(
    ("times", "said"),
    [
        ([0.25] * 4, "4 times too small (4 is the number of slices)"),
        ([4.0] * 4, "4 times too large (4 is the number of slices)"),
        ([0.5] * 4, "2 times too small (2 is the number of replicas)"),
        ([2.0, 0.0, 1.0, 1.0], "the slices count 2, 0, 1, 1 times"),
        ([1.0, 1.0, 1.0, 0.0], "the slices count 1, 1, 1, 0 times"),
    ],
)
def test_slices_are_counted(times: list[float], said: str, momentum: float) -> None:
    """From the gradients of the slices and the rate at which the reference follows them."""
    case = _case(_accumulated(times, 2, momentum), _accumulated([1.0] * 4, 1, momentum))
    assert rule_of(case) == "accumulation_off"
    assert said in text_of(case)


def test_slices_that_count_once_or_oddly_are_not_explained() -> None:
    """Right accumulation, and a slice that counts one and a half times."""
    assert rule_of(_case(_accumulated([1.0] * 4, 2), _accumulated([1.0] * 4))) is None
    assert rule_of(_case(_accumulated([1.5, 1.0, 1.0, 1.0], 2), _accumulated([1.0] * 4))) is None


def _normalised(local: list[np.ndarray[Any, Any]] | None, kind: str) -> list[Step]:
    """Moving statistics after one step on 12 examples of 6 channels; per replica where shards are given."""
    x = np.random.default_rng(2).standard_normal((12, 6)) * 2 + 1
    shards = [x] if local is None else [x[ids] for ids in local]
    means, variances = ([0.1 * f(shard, axis=0) for shard in shards] for f in (np.mean, np.var))
    means, variances = ([np.float32(0.9 * 1 + array) for array in found] for found in (means, variances))
    if kind == "averaged":
        means, variances = ([np.mean(found, axis=0)] * len(shards) for found in (means, variances))
    pair = {"norm/moving_mean": means, "norm/moving_variance": variances}
    found = {name: variable(name, copies, "mirrored" if len(shards) > 1 else "plain") for name, copies in pair.items()}
    ids = (tuple(range(12)),) if local is None else tuple(tuple(int(i) for i in shard) for shard in local)
    return [step(1, variables=found, examples=ids)]


@REPLICAS
@pytest.mark.parametrize("kind", ["own", "averaged"])
def test_local_statistics_are_named(replicas: int, kind: str) -> None:
    """From each replica's statistics by the law of total variance, or from averages that lack a part of it."""
    case = _case(_normalised(np.array_split(np.arange(12), replicas), kind), _normalised(None, kind), replicas)
    assert rule_of(case) == "batch_statistics_local"
    assert ("momentum of 0.9" if kind == "own" else "too small in 6 of 6 channels") in text_of(case)


def test_statistics_that_are_off_otherwise_are_not_named() -> None:
    """A moving variance that is too large says nothing of the kind."""
    run, truth = _normalised([np.arange(12)], "own"), _normalised(None, "own")
    found = dict(zip(("a", "b"), run[0].variables or (), strict=True))
    larger = variable("norm/moving_variance", found["b"].copies[0].numpy() * np.float32(1.5))
    case = _case([step(1, variables={"a": found["a"], "b": larger}, examples=run[0].examples)], truth)
    assert rule_of(case) is None


@REPLICAS
def test_the_same_draws_everywhere_are_named(replicas: int) -> None:
    """A metric that follows the random numbers, and a mask that leaves zeros in all gradients."""
    rng = np.random.default_rng(3)
    drawn = rng.random(4).astype(np.float32)
    ids, every = [tuple((k,) for k in range(replicas))] * 4, tuple(range(replicas))
    run = [step(k + 1, loss=np.float32(k), metrics={"kept": [drawn[k]] * replicas}, examples=ids[k]) for k in range(4)]
    truth = [step(k + 1, loss=np.float32(k + 1), metrics={"kept": np.float32(3)}, examples=(every,)) for k in range(4)]
    assert "'kept' is the same on all" in text_of(_case(run, truth, replicas))
    keep = np.arange(20) % 2
    parts = [(keep * rng.standard_normal(20)).astype(np.float32) for _ in range(replicas)]
    whole = {"w": rng.standard_normal(20).astype(np.float32)}
    case = _case([step(1, gradients={"w": parts})], [step(1, gradients=whole)], replicas)
    assert "10 elements of the gradients are exactly zero" in text_of(case)
    parts[0][0] = 1.0
    assert rule_of(_case([step(1, gradients={"w": parts})], [step(1, gradients=whole)], replicas)) is None


@REPLICAS
def test_metrics_that_are_not_aggregated_are_named(replicas: int) -> None:
    """A sum of copies, a sum of means, one replica's count, and one replica's mean loss."""
    ids = tuple(tuple(range(4 * k, 4 * k + 4)) for k in range(replicas))
    every = (tuple(range(4 * replicas)),)

    def told(run: Any, truth: Any, loss: Any = None) -> str:
        whole = None if loss is None else np.sum(loss, dtype=np.float32)
        case = _case(
            [step(1, loss=loss, metrics={"m": run}, examples=ids)],
            [step(1, loss=whole, metrics={"m": truth}, examples=every)],
            replicas,
        )
        assert rule_of(case) == "metric_not_aggregated"
        return text_of(case)

    means = [np.float32(0.25 * (k + 1)) for k in range(replicas)]
    assert f"the sum of {replicas} copies" in told(np.float32(0.3 * replicas), np.float32(0.3))
    of_one = np.array([0.3], np.float32)  # a vector, as Keras 3's R2Score and history give it
    assert f"the sum of {replicas} copies" in told(of_one * replicas, of_one)
    assert "the sum of the replicas' means" in told(means, np.mean(means, dtype=np.float32))
    assert "the share of replica 0, which had 4 of" in told(np.int64(4), np.int64(4 * replicas))
    losses = [np.float32(0.1 * (k + 1) ** 2 / replicas) for k in range(replicas)]
    assert "replica 1's value alone" in told(np.float32(losses[1] * replicas), np.sum(losses, dtype=np.float32), losses)


def test_metrics_that_follow_wrong_variables_are_not_blamed() -> None:
    """After the variables have gone wrong no metric is evidence of anything."""
    run = [step(k, variables={"w": np.float32(k + 1)}, metrics={"m": np.float32(k)}) for k in (1, 2)]
    truth = [step(k, variables={"w": np.float32(1)}, metrics={"m": np.float32(1)}) for k in (1, 2)]
    assert rule_of(_case(run, truth)) is None


@REPLICAS
def test_a_global_batch_for_every_replica_is_named(replicas: int) -> None:
    """From ids, or where none are on record from the number of steps."""
    batches = [tuple(range(4 * k, 4 * k + 4)) for k in range(6)]
    reference = [step(k, loss=np.float32(k), examples=(ids,)) for k, ids in enumerate(batches, 1)]
    shared = [tuple(batches[k : k + replicas]) for k in range(0, 6, replicas)]
    run = [step(k, loss=np.float32(k + 5), examples=ids) for k, ids in enumerate(shared, 1)]
    assert rule_of(_case(run, reference, replicas)) == "global_batch_per_replica"
    bare = [[step(each.index, loss=np.float32(each.index + n)) for each in of] for n, of in ((5, run), (0, reference))]
    assert "would prove it" in text_of(_case(bare[0], bare[1], replicas))
    everybody = [step(k, loss=np.float32(k + 5), examples=(ids,) * replicas) for k, ids in enumerate(batches, 1)]
    assert rule_of(_case(everybody, reference, replicas)) == "examples_duplicated"


AMOUNTS = (1.0, 2.0, 4.0, 8.0, 16.0)


def _updated(amounts: tuple[float, ...], each: bool, counted: bool) -> list[Step]:
    """One record of the end, or one after each update."""
    sums = np.cumsum(amounts)
    found = [
        {"w": np.array([total, k], np.float32), **({"updates": np.int64(k)} if counted else {})}
        for k, total in enumerate(sums, 1)
    ]
    return [step(k, variables=now) for k, now in enumerate(found, 1)] if each else [step(1, variables=found[-1])]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_lost_and_repeated_updates_are_named(each: bool, counted: bool) -> None:
    """By what one update of the reference does, or by counters; with neither nothing can be said."""
    for amounts, rule, name in (
        ((1.0, 2.0, 8.0, 16.0), "update_lost", "lack exactly what update 3"),
        ((1.0, 2.0, 4.0, 4.0, 8.0, 16.0), "update_repeated", "have what update 3"),
    ):
        run = _updated(amounts, each=False, counted=counted)
        reference = _updated(AMOUNTS, each, counted)
        case = _case(run, reference, 1, scheduled=5)
        assert rule_of(case) == (rule if each or counted else None)
        assert not each or name in text_of(case)
        assert not counted or "5 updates were scheduled" in text_of(case)


def test_a_counter_that_is_ahead_tells_of_a_repeated_update_only_where_updates_are_scheduled() -> None:
    """Replicas that are in step may each count, which applies nothing twice."""
    run = _updated((1.0, 2.0, 4.0, 4.0, 8.0, 16.0), each=False, counted=True)
    reference = _updated(AMOUNTS, each=False, counted=True)
    assert rule_of(_case(run, reference, 1, scheduled=5)) == "update_repeated"
    assert rule_of(_case(run, reference, 1)) is None


def test_an_update_that_is_not_scheduled_is_lost_too() -> None:
    """The coordinator's count agrees with the counter, and both fall short of the reference."""
    run = _updated((1.0, 2.0, 8.0, 16.0), each=False, counted=True)
    case = _case(run, _updated(AMOUNTS, each=False, counted=True), 1, scheduled=4)
    assert "4 updates were scheduled, 'updates' counts 4, the reference made 5: 1 lost" in text_of(case)


def test_a_copy_that_misses_an_update_is_named() -> None:
    """One replica's copy keeps its old value while the others are right."""
    run = [step(1, variables={"w": [1.0, 1.0, 1.0]}), step(2, variables={"w": [2.0, 1.0, 2.0]})]
    reference = [step(1, variables={"w": 1.0}), step(2, variables={"w": 2.0})]
    assert rule_of(_case(run, reference, 3)) == "update_lost"
    assert "on replica 1 keep the value that they began it with" in text_of(_case(run, reference, 3))
    odd = [run[0], step(2, variables={"w": [2.0, 1.5, 2.0]})]
    assert rule_of(_case(odd, reference, 3)) is None


def test_a_factor_of_the_workers_is_none_of_slices() -> None:
    """A coordinator's are known by the closures that they have run."""
    truth = np.array([1.0, 2.0, -3.0], np.float32)
    scaled = [step(1, gradients={"w": truth / np.float32(3)})]
    case = _case(scaled, [step(1, gradients={"w": truth})])
    assert rule_of(case) == "accumulation_off"
    (chief,) = case.run.clients
    seen = tuple(Seen(index=index, at=0.0, worker=index - 1) for index in (1, 2, 3))
    of_workers = RunTrace((msgspec.structs.replace(chief, seen=seen),))
    assert rule_of(dataclasses.replace(case, run=of_workers)) is None


def test_the_closest_prediction_is_shown_where_none_fits() -> None:
    """Gradients scaled by nearly a whole number: the factor explains most of it, but not all."""
    truth = np.array([1.0, 2.0, -3.0], np.float32)
    case = _case([step(1, gradients={"w": truth * np.float32(5.01)})], [step(1, gradients={"w": truth})])
    near = closest(case)
    assert explain(case) is None
    assert near is not None
    assert near.rule == "accumulation_off"
    assert 0 < near.unexplained < 0.01
    finding = Finding("l", "it differs", observable="gradients")
    text = " ".join(str(Verdict("p", "s", (Judgement("l", "broken", findings=(finding,)),), closest=near)).split())
    assert "no rule reproduces these numbers; the closest, accumulation_off, explains 99.8 % of the mismatch" in text


def test_nothing_is_close_to_noise() -> None:
    """A mismatch that no model comes near has no closest prediction."""
    odd = _case(
        [step(1, gradients={"w": np.array([1.0, 7.0, -2.0])})], [step(1, gradients={"w": np.array([3.0, 2.0, 1.0])})]
    )
    assert explain(odd) is None
    assert closest(odd) is None
    assert closest(trained(2)) is None


def test_evidence_comes_after_proof() -> None:
    """What is only likely, an uneven tail, gives way to what reproduces the numbers, and each rule has one id."""
    ids = [rule.id for rule in all_rules()]
    assert len(set(ids)) == len(ids)
    shards = (((0, 1), (2, 3)), ((4, 5, 6), (7,)))

    def steps(losses: tuple[float, float], split: bool) -> list[Step]:
        return [
            step(k, loss=np.float32(loss), variables={"w": 1.0}, examples=ids if split else (sum(ids, ()),))
            for k, (loss, ids) in enumerate(zip(losses, shards, strict=True), 1)
        ]

    assert rule_of(_case(steps((1, 3), split=True), steps((1, 2), split=False))) == "mean_of_replica_means"
    assert rule_of(_case(steps((1, 5), split=True), steps((1, 2), split=False))) is None
    assert rule_of(_case(steps((2, 4), split=True), steps((1, 2), split=False))) == "loss_times_replicas"


def test_a_rule_that_fails_costs_its_own_explanation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is warned of, and the rules after it are asked."""

    def fail(case: Case) -> None:
        raise ZeroDivisionError("no examples")

    broken = SimpleNamespace(id="broken", priority=0, explain=fail, attempts=fail, suspect=fail)
    rules = (broken, *all_rules())
    monkeypatch.setattr("harness.judging.explain.all_rules", lambda: rules)
    with pytest.warns(RuntimeWarning, match="rule broken failed: ZeroDivisionError"):
        assert rule_of(trained(2, "mean_then_sum")) == "loss_times_replicas"
    with pytest.warns(RuntimeWarning, match="rule broken failed"):
        assert closest(trained(2)) is None


def test_numbers_that_are_not_finite_are_no_obstacle() -> None:
    """A run that ends in NaN is asked about like any other."""
    truth = [step(k, loss=np.float32(1), gradients={"w": np.ones(4)}, variables={"w": np.ones(4)}) for k in (1, 2)]
    nan = np.full(4, np.nan)
    run = [step(k, loss=np.float32("nan"), gradients={"w": [nan, nan]}, variables={"w": [nan, nan]}) for k in (1, 2)]
    assert rule_of(_case(run, truth)) is None
    assert closest(_case(run, truth)) is None


@REPLICAS
@pytest.mark.filterwarnings("error")
def test_no_rule_fails_where_models_are_trained_in_turns(replicas: int) -> None:
    """Each step has the variables and gradients of one of two models, and not of the other."""
    rng = np.random.default_rng(2)

    def trained(name: str, index: int, factor: float, before: Any) -> tuple[Step, Any]:
        gradient = np.random.default_rng(index).standard_normal(3)
        after = before - 0.1 * factor * gradient
        loss = np.float64(factor * index)
        return step(index, loss=loss, gradients={name: factor * gradient}, variables={name: after}), after

    begin = {name: rng.standard_normal(3) for name in ("u", "v")}
    run, reference, found, truth = [], [], dict(begin), dict(begin)
    for index in range(1, 7):
        name = "uv"[index % 2]
        one, found[name] = trained(name, index, float(replicas) if name == "v" else 1.0, found[name])
        other, truth[name] = trained(name, index, 1.0, truth[name])
        run.append(one)
        reference.append(other)
    case = _case(run, reference, replicas)
    explain(case)
    closest(case)


def test_half_a_gradient_from_zeros_is_no_penalty() -> None:
    """With learning rate 1/2 what is missing of a gradient is what the step made of variables that were 0."""
    gradient = np.random.default_rng(3).standard_normal(12).astype(np.float32)

    def steps(share: float, replicas: int) -> list[Step]:
        part = np.float32(share * gradient / replicas)
        loss = np.float32(share * 0.25 / replicas)
        return [
            step(1, loss=[loss] * replicas, gradients={"w": [part] * replicas}, variables={"w": -0.5 * part * replicas})
        ]

    assert rule_of(_case(steps(0.5, 2), steps(1.0, 1))) == "loss_divided_by_replicas"


def test_no_rule_fails_where_a_gradient_has_the_name_of_another_variable() -> None:
    """Of variables without names a gradient's number is another one than its variable's."""
    random = np.random.default_rng(4)
    gradient, other = (random.standard_normal(size).astype(np.float32) for size in (6, 5))

    def steps(factor: float, replicas: int) -> list[Step]:
        part = np.float32(factor * gradient / replicas)
        after = {"Variable": other, "Variable#2": np.float32(1 - part * replicas)}
        return [step(1, gradients={"Variable": [part] * replicas}, variables=after)]

    assert rule_of(_case(steps(2.0, 2), steps(1.0, 1))) == "loss_times_replicas"
