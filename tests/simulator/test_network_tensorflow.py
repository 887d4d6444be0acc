"""What TensorFlow makes of links: real collectives and parameter servers through the relay."""

from __future__ import annotations

from typing import Any

import pytest

from simulator import Cluster, Link, RunFailed, RunResult, Topology
from tests.simulator._only_run import result_of

DELAY = 0.02
STEPS = 6
MEGABYTE = 250_000
# A hang is then noticed after a second, and not after the ten of TensorFlow's heartbeats.
KEEPALIVE = (
    "grpc.keepalive_time_ms=1000,grpc.http2.ping_timeout_ms=1000,grpc.http2.max_pings_without_data=0,"
    "grpc.keepalive_permit_without_calls=1"
)


def all_reduce(steps: int) -> tuple[list[float], list[float]]:
    """Sum 1 MB over all workers: the sum and the seconds of each step."""
    import time

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    ones = tf.ones([MEGABYTE])

    @tf.function
    def step(scale: Any) -> Any:
        def replica(scale: Any) -> Any:
            return tf.reduce_mean(tf.distribute.get_replica_context().all_reduce("SUM", ones * scale))

        return strategy.run(replica, args=(scale,))

    sums, seconds = [], []
    for number in range(steps):
        began = time.monotonic()
        sums.append(float(strategy.experimental_local_results(step(tf.constant(float(number))))[0].numpy()))
        seconds.append(time.monotonic() - began)
    return sums, seconds


def bytes_of(result: RunResult) -> dict[tuple[str, str], int]:
    return {(link.src, link.dst): link.bytes for link in result.links if link.src != link.dst}


def quickest(result: RunResult) -> float:
    """The seconds of the quickest step, each as long as for the worker that began it first.

    Who comes later finds the requests of the other on their way, and so needs less than a step without haste.
    """
    of_steps: list[list[float]] = [result[task].value[1] for task in ("worker:0", "worker:1")]
    return float(min(max(step) for step in zip(*of_steps, strict=True)))


@pytest.mark.full  # scenarios/test_network.py trains so in the quick profile
@pytest.mark.parametrize("one_way", [False, True], ids=["both_ways", "one_way"])
def test_a_delayed_all_reduce_is_right_and_as_slow_as_the_links_say(one_way: bool) -> None:
    """A ring of two pulls twice in a row, and each pull crosses the link once in each direction."""
    link = Link(src="worker:0", dst="worker:1", delay="20ms", one_way=one_way)
    delays = 2 if one_way else 4
    direct = result_of(Cluster(Topology(worker=2), relay=True, timeout=90), all_reduce, STEPS)
    delayed = result_of(Cluster(Topology(worker=2), links=[link], timeout=90), all_reduce, STEPS)
    for task in ("worker:0", "worker:1"):
        # Integers: the sums are exact.
        assert direct[task].value[0] == delayed[task].value[0] == [2.0 * number for number in range(STEPS)]
    # The least of all steps, with room for what a busy machine adds to each; a pull more would be 2 * DELAY.
    assert delays * DELAY <= quickest(delayed) < quickest(direct) + (delays + 1.5) * DELAY
    assert quickest(direct) < delays * DELAY
    for result in (direct, delayed):
        # Each worker sends half of the megabyte twice in a step.
        assert set(bytes_of(result)) == {("worker:0", "worker:1"), ("worker:1", "worker:0")}
        assert all(STEPS * MEGABYTE * 4 < count < STEPS * MEGABYTE * 4 * 1.2 for count in bytes_of(result).values())


def coordinate(updates: int) -> tuple[float, float]:
    """Add one to a variable on the ps so often, one closure after another: its value, and the seconds of the adding."""
    import time

    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        total = tf.Variable(0.0)

    @tf.function
    def add() -> Any:
        total.assign_add(1.0)
        return total.read_value()

    coordinator.schedule(add).fetch()
    began = time.monotonic()
    for _ in range(updates):
        coordinator.schedule(add).fetch()
    seconds = time.monotonic() - began
    return float(total.numpy()), seconds


@pytest.mark.full  # scenarios/test_network.py has such a link
def test_parameter_servers_go_through_the_links() -> None:
    """Worker and ps talk to each other over their own link; a delay there costs a round trip an update, none lost."""
    topology = Topology(chief=1, worker=1, ps=1)
    direct = result_of(Cluster(topology, relay=True, timeout=90), coordinate, 5)
    links = [Link(src="worker", dst="ps", delay="20ms")]
    delayed = result_of(Cluster(topology, links=links, timeout=90), coordinate, 5)
    assert direct["chief:0"].value[0] == delayed["chief:0"].value[0] == 6.0
    assert delayed["chief:0"].value[1] >= 5 * 2 * DELAY
    assert direct["chief:0"].value[1] < 5 * 2 * DELAY
    for src, dst in (("chief:0", "worker:0"), ("chief:0", "ps:0"), ("worker:0", "ps:0")):
        assert bytes_of(direct)[src, dst] > 0
        assert bytes_of(direct)[dst, src] > 0


@pytest.mark.full  # scenarios/test_network.py has such a link
def test_a_blackhole_ends_in_an_error_on_both_sides() -> None:
    """Cut after 3 MB, both workers fail, and with keepalive within seconds; the trigger is in time with the bytes."""
    link = Link(src="worker:0", dst="worker:1", blackhole=True, after_bytes="3MB")
    cluster = Cluster(Topology(worker=2), links=[link], timeout=60, env={"TF_GRPC_DEFAULT_OPTIONS": KEEPALIVE})
    for task in ("worker:0", "worker:1"):
        cluster.expect(task, error="OpError")
    with cluster:
        result = cluster.run(all_reduce, 1000)
    assert not any(task.value for task in result.values())
    cut = next(link for link in result.links if (link.src, link.dst) == ("worker:0", "worker:1"))
    assert cut.bytes - cut.dropped == 3_000_000
    assert result.seconds < 30


def test_a_run_with_unmet_expectations_of_an_error_fails() -> None:
    """The negative control: without the blackhole the same training ends well, which is then the failure."""
    with Cluster(Topology(worker=2), relay=True, timeout=60) as cluster:
        cluster.expect("worker:0", error="OpError")
        with pytest.raises(RunFailed, match="was expected and did not come"):
            cluster.run(all_reduce, 5)
