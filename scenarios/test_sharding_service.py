"""tf.data service and per-worker datasets give every worker the examples that their documentation promises."""

from __future__ import annotations

from collections import Counter

import pytest

from harness import Ledger, StrategyCase, observe
from scenarios.programs.sharding import coordinated, service

# The service's dispatcher is beside the cluster, on this machine's loopback interface, which a task's own host is not.
pytestmark = pytest.mark.requires(network="loopback")
EXAMPLES = 40
ONCE = Counter(range(EXAMPLES))
# The static policies are for several clients, each with a worker server of its own.
STATIC = ("FILE", "DATA", "FILE_OR_DATA", "HINT")
FILES = 4


@pytest.mark.strategies("multi_worker-2", full=("mirrored-2", "multi_worker-3"))
@pytest.mark.parametrize("mode", ["distributed_epoch", pytest.param("DYNAMIC", marks=pytest.mark.full)])
def test_a_distributed_epoch(strategy: StrategyCase, mode: service.Mode) -> None:
    """Dynamic sharding visits every example exactly once while no worker server is restarted, whoever consumes it."""
    with service.data_service(2) as servers:
        run = observe(service.make(mode, servers, EXAMPLES), strategy, timeout=60)
    assert Ledger.of(run).counts() == ONCE


@pytest.mark.strategies("multi_worker-2", full=("mirrored-2", "multi_worker-3"))
@pytest.mark.parametrize("mode", ["parallel_epochs", pytest.param("OFF", marks=pytest.mark.full)])
def test_parallel_epochs(strategy: StrategyCase, mode: service.Mode) -> None:
    """Without sharding each worker server produces the whole dataset."""
    with service.data_service(2) as servers:
        run = observe(service.make(mode, servers, EXAMPLES), strategy, timeout=60)
    assert Ledger.of(run).counts() == ONCE + ONCE


@pytest.mark.strategies("multi_worker-2", full=("multi_worker-3",))
@pytest.mark.parametrize("mode", ["DATA", "FILE", *(pytest.param(mode, marks=pytest.mark.full) for mode in STATIC[2:])])
def test_static_sharding(strategy: StrategyCase, mode: service.Mode) -> None:
    """Each client reads the shard of its own worker server: every W-th file, or every W-th example."""
    with service.data_service(0, fixed=strategy.workers) as servers:
        run = observe(service.make(mode, servers, EXAMPLES, files=FILES, local=True), strategy, timeout=60)
    ledger = Ledger.of(run)
    assert ledger.counts() == ONCE
    # Who registers first is shard 0. Files hold every FILES-th example, read one after the other.
    in_order = [key for number in range(FILES) for key in range(number, EXAMPLES, FILES)]
    files = [in_order[start : start + EXAMPLES // FILES] for start in range(0, EXAMPLES, EXAMPLES // FILES)]
    shards = (
        [sorted(key for file in files[index :: strategy.workers] for key in file) for index in range(strategy.workers)]
        if mode.startswith("FILE")
        else [sorted(in_order[index :: strategy.workers]) for index in range(strategy.workers)]
    )
    assert sorted(sorted(ids) for ids in ledger.by_worker().values()) == sorted(shards)


@pytest.mark.strategies("mirrored-2", full=("multi_worker-2",))
def test_a_killed_worker_server_of_a_distributed_epoch(strategy: StrategyCase) -> None:
    """At most once: no example is repeated; what the killed server had been given and not delivered is lost."""
    with service.data_service(2) as servers:
        run = observe(service.make("distributed_epoch", servers, 200, kill_at=3), strategy, timeout=60)
    ledger = Ledger.of(run)
    assert not ledger.surplus(range(200))
    # Which ones is a race, but a server buffers few, and the job has gone on to its end.
    assert 199 in ledger.counts() or 198 in ledger.counts()
    assert len(ledger.missing(range(200))) < 20


@pytest.mark.strategies("mirrored-2", full=("multi_worker-2",))
def test_a_killed_worker_server_of_parallel_epochs(strategy: StrategyCase) -> None:
    """The server in its place begins from the beginning: nothing is lost, and what had been delivered is repeated."""
    with service.data_service(2) as servers:
        run = observe(service.make("parallel_epochs", servers, 100, kill_at=6), strategy, timeout=60)
    counts = Ledger.of(run).counts()
    assert set(counts) == set(range(100))
    assert all(2 <= count <= 3 for count in counts.values())
    assert counts[0] == 3
    assert counts[99] == 2


@pytest.mark.strategies("parameter_server-2w1p", full=("parameter_server-1w1p", "parameter_server-2w2p"))
@pytest.mark.parametrize("form", ["dataset", "distributed_dataset", "datasets_from_function"])
def test_per_worker_datasets(strategy: StrategyCase, form: coordinated.Form) -> None:
    """Nothing is sharded for a coordinator's workers: each reads the whole dataset from its beginning, in order.

    Source: tensorflow.org/tutorials/distribute/input, Sharding ("there is no autosharding in multi-worker training with
    ParameterServerStrategy"); InputContext there says one pipeline, number 0, on every worker.
    """
    examples, steps = 10, 12
    ledger = Ledger.of(observe(coordinated.make(form, examples, steps), strategy, timeout=60))
    assert len(ledger) == steps * coordinated.GLOBAL_BATCH
    for ids in ledger.by_worker().values():
        assert ids == [position % examples for position in range(len(ids))]


@pytest.mark.strategies("parameter_server-2w1p", full=("parameter_server-2w2p",))
def test_a_global_seed_gives_all_per_worker_datasets_one_order(strategy: StrategyCase) -> None:
    """The tutorial's shuffle without a seed is meant to differ between workers; under a global seed it does not."""
    ledger = Ledger.of(observe(coordinated.make("shuffled", 30, 12), strategy, timeout=60))
    orders = list(ledger.by_worker().values())
    shared = min(map(len, orders))
    assert len({tuple(ids[:shared]) for ids in orders}) == 1
    assert orders[0][:30] != list(range(len(orders[0][:30])))
