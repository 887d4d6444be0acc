"""How long a step takes under each strategy, side by side, without Lockstep's record of it.

The strategies run in turns, several times each, so that what slows the machine for a while meets all of them. Of each
run the first steps, of which some are traced, do not count; of the others the median does. On CPU devices this says
what a strategy costs, and nothing of GPUs, which `lockstep certify` measures.
"""

from __future__ import annotations

import functools
import time
from typing import Any

from benchmarks.measure import Figure, main, median
from harness import strategy_case
from simulator import Cluster

_ROUNDS = 3
_STEPS, _TRACED = 45, 5
_BATCH = 64
_STRATEGIES = (
    "one_device",
    "mirrored-2",
    "mirrored-2:hierarchical_copy",
    "central_storage-2",
    "multi_worker-2",
    "multi_worker-2:ring",
    "parameter_server-2w1p",
)
# A step that takes so long waits for something, such as a deadline of gRPC; what it computes is done in a millisecond.
_MS_MAX = 200.0


def train(case: Any) -> list[float]:
    """Seconds of each step of a client, as a task takes them: two layers, squared error, gradient descent."""
    import numpy as np
    import tensorflow as tf

    strategy = case.build()
    x = np.random.default_rng(1).standard_normal((_BATCH, 64)).astype(np.float32)
    y = x[:, :10]
    with strategy.scope():
        total = tf.VariableAggregation.SUM
        weights = [tf.Variable(tf.ones(shape) / 10, aggregation=total) for shape in ((64, 128), (128, 10))]

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            error = tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1]) - y
            loss = tf.reduce_sum(error**2) / _BATCH
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    step = _scheduled(strategy, replica_step, x, y) if case.ps else _stepping(strategy, replica_step, x, y)
    found = []
    for _ in range(_STEPS):
        begin = time.perf_counter()
        step()
        found.append(time.perf_counter() - begin)
    return found[_TRACED:]


def _stepping(strategy: Any, replica_step: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH).repeat().with_options(options)
    iterator = iter(strategy.experimental_distribute_dataset(dataset))
    run = tf.function(lambda x, y: strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None))
    return lambda: float(run(*next(iterator)))  # which waits for it


def _scheduled(strategy: Any, replica_step: Any, x: Any, y: Any) -> Any:
    import tensorflow as tf

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    closure = tf.function(replica_step)

    def step() -> None:
        coordinator.schedule(closure, args=(tf.constant(x), tf.constant(y)))
        coordinator.join()

    return step


@functools.cache
def _taken() -> dict[str, list[float]]:
    """Seconds of all steps that count, by strategy."""
    found: dict[str, list[float]] = {name: [] for name in _STRATEGIES}
    for _ in range(_ROUNDS):
        for name in _STRATEGIES:
            case = strategy_case(name)
            with Cluster(case.topology, timeout=120) as cluster:
                found[name] += cluster.run(train, case)[case.clients[0]].value
    return found


def _measured(name: str) -> Figure:
    taken = _taken()
    alone = None if name == "one_device" else 1000 * median(taken["one_device"])
    return Figure(f"a step under {name}", 1000 * median(taken[name]), "ms", _MS_MAX, "figure", alone, len(taken[name]))


MEASUREMENTS = tuple(functools.partial(_measured, name) for name in _STRATEGIES)

if __name__ == "__main__":
    main(MEASUREMENTS, __doc__ or "")
