"""Links between tasks on several machines, each of which has a relay; all of them are this one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, Link, RunFailed, Topology, UsageError
from simulator.faults import Delay, Fault, MachineLost, Partition
from simulator.network.network import summed
from simulator.wire.network import LinkCounters
from tests.simulator._faults import events, plan_of, talk

TWO = "env MACHINE={}:m0,m1"
AT: dict[str, Any] = {"step": 2, "of": "worker:1"}


def _cluster(**options: Any) -> Cluster:
    return Cluster(Topology(worker=2), preload=(), timeout=60, machines=TWO, **options)


def test_links_are_counted_by_the_relay_of_who_connects(tmp_path: Path) -> None:
    """Both directions; and a link with a delay has it from the first connection on, there and back."""
    with _cluster(relay=True) as cluster:
        links = {(link.src, link.dst): link for link in cluster.run(talk, 5, 0.0).links}
    assert links["worker:1", "worker:0"].bytes == 5 * 1000 + len(b"end")
    assert links["worker:0", "worker:1"].bytes == 5 * 1000
    # It tries again until the other one listens.
    assert links["worker:1", "worker:0"].connections >= 1
    assert links["worker:0", "worker:1"].connections == 0
    slow = [Link(src="worker:0", dst="worker:1", delay="30ms")]
    with _cluster(links=slow, out=tmp_path / "out") as cluster, cluster.start(talk, 5, 0.0) as run:
        trips = [run.network.probe(*pair) for pair in (("worker:0", "worker:1"), ("worker:1", "worker:0"))]
        run.join()
    assert min(trips) >= 0.06
    steps = [event["at"] for event in events(tmp_path / "out", "step")]
    assert min(later - step for step, later in itertools.pairwise(steps)) >= 0.06


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Delay(src="worker:0", dst="worker:1", **AT, delay="30ms", duration="200ms"),
            "round_trip_seconds",
        ),
        (Partition(src="worker:0", dst="worker:1", **AT, mode="refuse", duration="200ms"), "probe"),
        pytest.param(
            Partition(src="worker:1", dst="worker:0", **AT, mode="blackhole", duration="2s"),
            "probe",
            marks=pytest.mark.full,
        ),
    ],
)
def test_faults_of_links_are_put_in_force_and_proved(fault: Fault, said: str, tmp_path: Path) -> None:
    """By a probe from the machine of its source; the conversation goes on afterwards."""
    with _cluster(faults=plan_of(fault, seed=1), out=tmp_path) as cluster:
        result = cluster.run(talk, 30, 0.02)
    fired, undone = events(tmp_path, "fired", "undone")
    assert said in fired["effect"]
    assert undone["problem"] is None
    assert result["worker:1"].steps == 30


def test_a_fault_of_a_link_without_traffic_is_none(tmp_path: Path) -> None:
    """As on one machine: nothing came by while it was in force."""
    plan = plan_of(Delay(src="worker:2", dst="worker:0", time="10ms", delay="30ms", duration="100ms"))
    made = Cluster(Topology(worker=3), preload=(), timeout=60, machines=TWO, faults=plan, out=tmp_path)
    with made as cluster, pytest.raises(RunFailed, match="nothing came by on the link while it was in force"):
        cluster.run(_talk_of_two, 20, 0.02)


def _talk_of_two(count: int, seconds: float) -> int:
    from simulator.agent import current

    agent = current()
    assert agent is not None
    return 0 if agent.spec.task == "worker:2" else talk(count, seconds)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"links": [Link(src="worker:0", dst="worker:1", rate="1MB/s")]}, "neither knows its rate"),
        ({"links": [Link(src="worker:0", dst="worker:1", hold=True, after_connections=1)]}, "when a trigger is met"),
        (
            {"faults": FaultPlan(faults=(Partition(src="worker:0", dst="worker:1", bytes_="1KiB"),))},
            "neither knows when bytes are met",
        ),
        ({"faults": plan_of("kind=rate,src=worker:0,dst=worker:1,step=1,rate=1MB/s")}, "a fault of kind rate acts on"),
        (
            {"relay": True, "faults": FaultPlan(faults=(MachineLost(task="worker:1", step=1),))},
            "takes the relay of its machine away",
        ),
    ],
)
def test_what_two_relays_cannot_know_is_refused(options: dict[str, Any], why: str) -> None:
    """Before anything starts."""
    with pytest.raises(UsageError, match=why):
        _cluster(**options)


def test_counters_of_relays_are_added() -> None:
    """Each directed link is there once, in order; the time is that of the relay that saw more of it."""
    links = [
        LinkCounters("b", "a", bytes=1, connections=1, seconds=2.0),
        LinkCounters("a", "b", bytes=3, delivered=3),
        LinkCounters("b", "a", bytes=10, seconds=1.0),
    ]
    assert summed(links) == (
        LinkCounters("a", "b", bytes=3, delivered=3),
        LinkCounters("b", "a", bytes=11, connections=1, seconds=2.0),
    )
