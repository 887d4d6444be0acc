"""Every example reaches training as often as TensorFlow documents: in which worker, replica and step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from harness import Ledger, StrategyCase, Verdict, verify
from scenarios.programs.sharding import contracts, training
from scenarios.programs.sharding.live import Asking, PipelineFailed, asking
from scenarios.programs.sharding.pipelines import Pipeline, Policy, Source

_MORE = ("one_device", "multi_worker-3", "multi_worker-2x2")
EVERYWHERE = pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "central_storage-2", *_MORE))
# In the quick profile one host has the elements by position, and no shards besides.
BY_POSITION = pytest.mark.strategies("mirrored-3", "multi_worker-2", full=("central_storage-2", *_MORE))
# Central storage drops the end of what is not sharded by element: see test_the_last_batch.
WITH_AN_END = pytest.mark.strategies("multi_worker-2", full=("mirrored-3", *_MORE))
ACROSS_WORKERS = pytest.mark.strategies("multi_worker-2", full=("multi_worker-3", "multi_worker-2x2"))
FILES = (
    Pipeline((6, 6, 6, 6), 8, "tfrecord"),
    Pipeline((9, 3, 1, 0), 4, "tfrecord"),
    Pipeline((5, 8, 2), 7, "text"),
    Pipeline((1, 1, 1), 1, "tfrecord"),
)
CSV = (Pipeline((7, 4), 4, "csv"), Pipeline((5,), 8, "make_csv"))
MEMORY = (Pipeline((24,), 8), Pipeline((13,), 7), Pipeline((1,), 4), Pipeline((11,), 4, "generator"))
TRANSFORMED: dict[str, list[tuple[str, ...]]] = {
    "shuffle": [("shuffle",), ("shuffle_seeded",), ("shuffle_once",)],
    "cache": [("shuffle_seeded", "cache"), ("cache", "shuffle_seeded")],
    "repeat": [("shuffle_seeded", "repeat"), ("repeat", "shuffle_seeded"), ("batch", "repeat")],
    "parallel": [("map",), ("map", "prefetch"), ("batch", "prefetch")],
    "batch": [("padded_batch",), ("ragged_batch",), ("sparse_batch",), ("batch_drop_remainder",)],
    "cardinality": [("unknown",), ("skip",), ("take",)],
}


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    """Ask what each replica is given, on clusters that the tests of this module share."""
    with asking() as clusters:
        yield clusters


def _times(pipeline: Pipeline, times: int = 1) -> Counter[int]:
    return Counter(dict.fromkeys(range(pipeline.total), times))


@WITH_AN_END
@pytest.mark.parametrize("policy", ["AUTO", "FILE"])
def test_files_are_sharded_by_file(strategy: StrategyCase, policy: Policy, ask: Asking) -> None:
    """Each worker reads every W-th file, also where they are uneven or empty, and no example is lost or repeated."""
    for pipeline in FILES if policy == "FILE" else FILES[:2]:
        asked = _with(pipeline, policy=policy)
        run = ask(strategy, asked)
        assert contracts.seen(run) == ask.expected(strategy, asked), asked
        assert Ledger.of(run).counts() == _times(asked), asked


@BY_POSITION
@pytest.mark.parametrize("policy", ["AUTO", "DATA"])
def test_elements_are_sharded_by_position(strategy: StrategyCase, policy: Policy, ask: Asking) -> None:
    """Each global batch is divided over all replicas, in memory, from CSV, and with DATA from any file."""
    for pipeline in (*MEMORY, *CSV) if policy == "AUTO" else (MEMORY[1], *FILES[1:]):
        asked = _with(pipeline, policy=policy)
        run = ask(strategy, asked)
        assert contracts.seen(run) == ask.expected(strategy, asked), asked
        assert Ledger.of(run).counts() == _times(asked), asked


@WITH_AN_END
@pytest.mark.parametrize("policy", ["OFF", "HINT"])
def test_without_sharding_each_worker_sees_everything(strategy: StrategyCase, policy: Policy, ask: Asking) -> None:
    """Policy OFF, and HINT where no shard(SHARD_HINT, ...) is found, repeat every example for each worker."""
    for pipeline in (MEMORY[0], MEMORY[1], FILES[1], CSV[0]):
        asked = _with(pipeline, policy=policy)
        run = ask(strategy, asked)
        assert contracts.seen(run) == ask.expected(strategy, asked), asked
        assert Ledger.of(run).counts() == _times(asked, strategy.workers), asked


@ACROSS_WORKERS
def test_a_hint_is_replaced(strategy: StrategyCase, ask: Asking) -> None:
    """With HINT, shard(SHARD_HINT, SHARD_HINT) becomes shard(W, w), where it stands."""
    for pipeline in (MEMORY[0], FILES[0]):
        run = ask(strategy, _with(pipeline, policy="HINT", steps=("shard_hint",)))
        ledger = Ledger.of(run)
        assert ledger.counts() == _times(pipeline)
        for index, ids in enumerate(ledger.by_worker().values()):
            assert sorted(ids) == list(range(index, pipeline.total, strategy.workers))


@ACROSS_WORKERS
def test_a_hint_under_another_policy_is_refused(strategy: StrategyCase, ask: Asking) -> None:
    """A placeholder that nobody replaces is an error, not a shard of its own."""
    with pytest.raises(PipelineFailed, match="SHARD_HINT"):
        ask(strategy, _with(MEMORY[0], policy="AUTO", steps=("shard_hint",)))


@ACROSS_WORKERS
@pytest.mark.parametrize("policy", [pytest.param("AUTO", marks=pytest.mark.full), "FILE"])
def test_fewer_files_than_workers_are_refused(strategy: StrategyCase, policy: Policy, ask: Asking) -> None:
    """InvalidArgumentError as documented, on the workers that have a file; those that have none wait for them."""
    pipeline = Pipeline((6,) * (strategy.workers - 1), 4, "tfrecord", policy=policy)
    with pytest.raises(PipelineFailed) as caught:
        ask(strategy, pipeline)
    raised = [error for error in caught.value.errors.values() if error]
    assert raised
    assert all(error.startswith("InvalidArgumentError") and "FILE based sharding" in error for error in raised)
    assert not caught.value.errors[f"worker:{strategy.workers - 1}"]


@EVERYWHERE
@pytest.mark.parametrize("group", list(TRANSFORMED))
def test_transformations_come_before_the_shard(strategy: StrategyCase, group: str, ask: Asking) -> None:
    """What a deterministic pipeline yields on one device is what is divided, in each of two epochs."""
    for steps in TRANSFORMED[group]:
        # An uneven end, but no replica without an example: sparse tensors do not survive that.
        asked = Pipeline((23,), 12, steps=steps, epochs=2)
        run = ask(strategy, asked)
        assert contracts.seen(run) == ask.expected(strategy, asked), steps


@EVERYWHERE
@pytest.mark.parametrize(
    ("policy", "step"),
    [
        ("FILE", "interleave"),
        ("FILE", "interleave_parallel_any_order"),
        ("DATA", "interleave"),
        ("DATA", "interleave_parallel"),
    ],
)
def test_interleaved_files(strategy: StrategyCase, policy: Policy, step: str, ask: Asking) -> None:
    """Interleaved files are seen once in an epoch; sharded by element only where the order is deterministic."""
    pipeline = Pipeline((5, 3, 4), 4, "tfrecord", (step,), policy, epochs=2)
    ledger = Ledger.of(ask(strategy, pipeline))
    assert ledger.counts() == _times(pipeline, 2)
    if policy == "FILE":
        for index, ids in enumerate(ledger.by_worker().values()):
            mine = [key for file in pipeline.files[index :: strategy.workers] for key in file]
            assert Counter(ids) == Counter(mine * 2)


@EVERYWHERE
def test_shuffling_what_is_sharded_by_file_needs_no_seed(strategy: StrategyCase, ask: Asking) -> None:
    """Each worker shuffles its own files: the epochs are complete though every process draws its own numbers."""
    pipeline = Pipeline((5, 3, 4), 4, "tfrecord", ("shuffle",), seeds=False, epochs=3)
    assert Ledger.of(ask(strategy, pipeline)).counts() == _times(pipeline, 3)


@WITH_AN_END
@pytest.mark.parametrize("function", ["shard_then_batch", "batch_then_shard"])
def test_a_function_that_shards(strategy: StrategyCase, function: str, ask: Asking) -> None:
    """With InputContext's index and per-replica batch size, each step is a global batch without repetition."""
    pipeline = Pipeline((24 * strategy.replicas + 1,), 4 * strategy.replicas, function=function)
    ledger = Ledger.of(ask(strategy, pipeline))
    assert ledger.counts() == _times(pipeline)
    sizes = list(ledger.sizes().values())
    assert all(set(by_task.values()) == {(4,) * strategy.devices} for by_task in sizes[:6])


@ACROSS_WORKERS
def test_a_function_that_does_not_shard_right(strategy: StrategyCase, ask: Asking) -> None:
    """Nothing corrects it: no shard repeats everything, one index loses most, a global batch for each replica is R."""
    pipeline = Pipeline((12 * strategy.replicas,), 2 * strategy.replicas)

    def ledger(function: str) -> Ledger:
        return Ledger.of(ask(strategy, _with(pipeline, function=function)))

    assert ledger("no_shard").counts() == _times(pipeline, strategy.workers)
    first = ledger("first_shard_everywhere")
    mine = range(0, pipeline.total, strategy.workers)
    assert first.counts() == Counter(dict.fromkeys(mine, strategy.workers))
    assert set(first.missing(_times(pipeline))) == set(range(pipeline.total)) - set(mine)
    step = next(iter(ledger("global_batch").sizes().values()))
    assert sum(map(sum, step.values())) == pipeline.batch * strategy.replicas


@ACROSS_WORKERS
def test_a_tail_that_each_worker_drops(strategy: StrategyCase, ask: Asking) -> None:
    """drop_remainder after sharding by file drops up to a batch for each worker, more than one device would."""
    pipeline = Pipeline((7, 7, 7), 4, "tfrecord", ("batch_drop_remainder",), "FILE")
    kept = [len(file_ids) for file_ids in _by_worker_files(pipeline, strategy.workers)]
    ledger = Ledger.of(ask(strategy, pipeline))
    assert len(ledger) == sum(count - count % 4 for count in kept)
    assert not ledger.surplus(_times(pipeline))
    assert len(ledger) < pipeline.total - pipeline.total % 4


def _by_worker_files(pipeline: Pipeline, workers: int) -> list[list[int]]:
    return [[key for file in pipeline.files[index::workers] for key in file] for index in range(workers)]


def _with(pipeline: Pipeline, **changed: object) -> Pipeline:
    return msgspec.structs.replace(pipeline, **changed)


RIGHT = {
    "by position": Pipeline((22,), 8, steps=("shuffle_seeded",), epochs=2),
    "from a function": Pipeline((24,), 12, function="shard_then_batch"),
    "CSV": Pipeline((9, 7), 4, "csv", ("cache", "repeat")),
    "padded": Pipeline((15,), 4, steps=("padded_batch",)),
}
WRONG = {
    "OFF": Pipeline((16,), 4, policy="OFF"),
    "unseeded shuffle": Pipeline((16,), 4, steps=("shuffle",), seeds=False),
    "unseeded make_csv_dataset": Pipeline((8, 8), 4, "make_csv", ("make_csv_shuffled",), seeds=False),
    "no shard": Pipeline((24,), 12, function="no_shard"),
    "first shard everywhere": Pipeline((24,), 12, function="first_shard_everywhere"),
    "a global batch for each replica": Pipeline((24,), 12, function="global_batch"),
}


def _verify(pipeline: Pipeline, strategy: StrategyCase) -> Verdict:
    """Verify `training`, whose loss is exact where the batch is a power of two."""
    exact = pipeline.batch & (pipeline.batch - 1) == 0
    return verify(training.make(pipeline), strategy, tier="exact" if exact else "derived", timeout=60)


def _broken(verdict: Verdict) -> set[str]:
    return {finding.law for finding in verdict.findings}


@EVERYWHERE
@pytest.mark.parametrize(
    "form", ["by position", *(pytest.param(form, marks=pytest.mark.full) for form in list(RIGHT)[1:])]
)
def test_right_pipelines_are_consistent(strategy: StrategyCase, form: str) -> None:
    """The ids of each step are those of one device."""
    assert _verify(RIGHT[form], strategy)


@ACROSS_WORKERS
@pytest.mark.parametrize("form", list(WRONG))
def test_wrong_pipelines_are_caught(strategy: StrategyCase, form: str) -> None:
    """The law of examples says which are missing and which come too often."""
    verdict = _verify(WRONG[form], strategy)
    assert "examples_match_reference" in _broken(verdict)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "central_storage-2"))
@pytest.mark.loop("pipeline:batch_then_repeat_of_files")
def test_a_partial_batch_that_is_repeated(strategy: StrategyCase) -> None:
    """A dataset of files that is batched and then repeated has the partial batch at the end of each epoch."""
    assert _verify(Pipeline((6, 4), 4, "tfrecord", ("batch", "repeat")), strategy)


@pytest.mark.strategies("mirrored-2", full=("mirrored-3", "central_storage-2"))
@pytest.mark.parametrize("loop", ["pipeline:last_batch_of_files", "pipeline:last_batch_from_a_function"])
def test_the_last_batch(strategy: StrategyCase, loop: str) -> None:
    """The last example is seen, though there is one replica only that gets one."""
    last = Pipeline((5,), 4, "tfrecord") if loop.endswith("files") else Pipeline((13,), 12, function="shard_then_batch")
    assert _verify(last, strategy)


@pytest.mark.strategies("mirrored-3", full=("multi_worker-3", "multi_worker-2x2"))
@pytest.mark.loop("pipeline:sparse")
def test_a_replica_without_a_sparse_example(strategy: StrategyCase) -> None:
    """Of a batch of one example, all replicas but one are given an empty sparse tensor."""
    assert _verify(Pipeline((9,), 4, steps=("sparse_batch",)), strategy)


@pytest.mark.strategies("multi_worker-2", full=("multi_worker-3", "multi_worker-2x2"))
@pytest.mark.parametrize("loop", ["pipeline:csv_by_file", "pipeline:make_csv_by_file"])
def test_csv_files_are_sharded_by_file(strategy: StrategyCase, loop: str) -> None:
    """Each of three CSV files goes to one worker."""
    source: Source = "csv" if loop == "pipeline:csv_by_file" else "make_csv"
    assert _verify(Pipeline((4, 4, 4), 4, source, policy="FILE"), strategy)
