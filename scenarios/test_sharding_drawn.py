"""Drawn pipelines: every right one reaches each replica as documented, and each wrong one has a smallest example."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from harness import Ledger, StrategyCase, strategy_case
from scenarios.programs.sharding import contracts
from scenarios.programs.sharding.live import Asking, asking
from scenarios.programs.sharding.pipelines import Pipeline

COMMON = {
    "database": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}
# What keeps a deterministic order, and what says where an epoch's batches end.
ORDERED = st.lists(
    st.sampled_from(
        ["shuffle", "shuffle_seeded", "shuffle_once", "cache", "repeat", "map", "prefetch", "unknown", "take"]
    ),
    max_size=3,
    unique=True,
)
BATCHED = st.sampled_from([(), ("batch", "prefetch"), ("padded_batch",), ("ragged_batch",), ("batch_drop_remainder",)])
IN_MEMORY = st.builds(
    Pipeline,
    examples=st.tuples(st.integers(0, 25)),
    batch=st.integers(1, 9),
    source=st.sampled_from(["memory", "memory", "generator"]),
    steps=st.builds(lambda before, batched: (*before, *batched), ORDERED, BATCHED),
    policy=st.sampled_from(["AUTO", "DATA"]),
    epochs=st.integers(1, 2),
)
# At least three files: one for each worker of the largest cluster here.
IN_FILES = st.builds(
    Pipeline,
    examples=st.lists(st.integers(0, 9), min_size=3, max_size=5).map(tuple),
    batch=st.integers(1, 9),
    source=st.sampled_from(["tfrecord", "text"]),
    steps=st.lists(st.sampled_from(["cache", "map", "prefetch", "unknown", "interleave"]), max_size=2, unique=True).map(
        tuple
    ),
    policy=st.sampled_from(["AUTO", "FILE", "DATA", "OFF"]),
    epochs=st.integers(1, 2),
)
SMALL = st.tuples(st.integers(0, 12))
WRONG: dict[str, tuple[st.SearchStrategy[Pipeline], Pipeline]] = {
    # One example is enough: both workers have it.
    "OFF": (st.builds(Pipeline, SMALL, st.integers(1, 4), policy=st.just("OFF")), Pipeline((1,), 1, policy="OFF")),
    "no shard": (
        st.builds(Pipeline, SMALL, st.sampled_from([2, 4]), function=st.just("no_shard")),
        Pipeline((1,), 2, function="no_shard"),
    ),
    # Of one example, both read the first shard; there is no other to be missing.
    "first shard everywhere": (
        st.builds(Pipeline, SMALL, st.sampled_from([2, 4]), function=st.just("first_shard_everywhere")),
        Pipeline((1,), 2, function="first_shard_everywhere"),
    ),
    # A shard of an order that the workers do not share: it takes two examples in two sub-batches.
    "unseeded shuffle": (
        st.builds(Pipeline, SMALL, st.integers(1, 4), steps=st.just(("shuffle",)), seeds=st.just(False)),
        Pipeline((2,), 2, steps=("shuffle",), seeds=False),
    ),
    # Each worker drops what does not fill a batch, though together they have one.
    "dropped tails": (
        st.builds(
            Pipeline,
            st.tuples(st.integers(0, 4), st.integers(0, 4)),
            st.integers(1, 4),
            source=st.just("tfrecord"),
            steps=st.just(("batch_drop_remainder",)),
        ),
        Pipeline((1, 1), 2, "tfrecord", ("batch_drop_remainder",)),
    ),
}


@pytest.fixture(scope="module")
def ask() -> Iterator[Asking]:
    """Ask what each replica is given, on clusters that all draws share."""
    with asking() as clusters:
        yield clusters


def _check(ask: Asking, strategy: StrategyCase, drawn: st.SearchStrategy[Pipeline], draws: int) -> None:
    @settings(max_examples=draws, phases=[Phase.generate, Phase.shrink], **COMMON)  # type: ignore[arg-type]
    @given(drawn)
    def holds(pipeline: Pipeline) -> None:
        run = ask(strategy, pipeline)
        assert contracts.seen(run) == ask.expected(strategy, pipeline)
        expected = Ledger.of(ask("one_device", pipeline)).counts()
        if contracts.policy_in_force(pipeline) not in ("OFF", "HINT") and not _cut_for_each_worker(pipeline):
            assert Ledger.of(run).counts() == expected

    holds()


def _cut_for_each_worker(pipeline: Pipeline) -> bool:
    """`take` and a dropped tail act on what a worker reads, which sharding by file makes a part."""
    cutting = {"take", "batch_drop_remainder"} & set(pipeline.steps)
    return bool(cutting) and contracts.policy_in_force(pipeline) == "FILE"


@pytest.mark.strategies("multi_worker-2", full=("mirrored-3", "multi_worker-3", "multi_worker-2x2"))
@pytest.mark.parametrize("source", ["memory", "files"])
def test_every_right_pipeline_keeps_the_contract(
    strategy: StrategyCase, source: str, ask: Asking, pytestconfig: pytest.Config
) -> None:
    """Whatever is drawn of sizes, sources, policies and transformations, the formula says where each example goes."""
    draws = 20 if pytestconfig.getoption("--profile") == "full" else 5
    _check(ask, strategy, IN_MEMORY if source == "memory" else IN_FILES, draws)


@pytest.mark.full
@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("mistake", list(WRONG))
def test_wrong_pipelines_shrink_to_the_smallest_example(strategy: StrategyCase, mistake: str, ask: Asking) -> None:
    """The smallest pipeline whose ledger is not that of one device."""
    drawn, smallest = WRONG[mistake]
    searching = settings(max_examples=60, **COMMON)  # type: ignore[arg-type]
    assert find(drawn, _differs(ask, strategy), settings=searching) == smallest


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("mistake", list(WRONG))
def test_the_smallest_wrong_pipelines_are_wrong(strategy: StrategyCase, mistake: str, ask: Asking) -> None:
    """Each counterexample differs from one device, and the same pipeline under one device does not."""
    _, smallest = WRONG[mistake]
    assert _differs(ask, strategy)(smallest)
    assert not _differs(ask, strategy_case("one_device"))(smallest)


def _differs(ask: Asking, strategy: StrategyCase) -> Callable[[Pipeline], bool]:
    def differs(pipeline: Pipeline) -> bool:
        if pipeline.source == "tfrecord" and len(pipeline.examples) < strategy.workers:
            return False
        return Ledger.of(ask(strategy, pipeline)).counts() != Ledger.of(ask("one_device", pipeline)).counts()

    return differs
