"""Packets are lost as often as was asked, whatever their protocol, and counted."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

from simulator import Cluster, Link, RunFailed, Topology
from simulator.network.network import joined
from simulator.wire.network import LinkCounters
from tests.simulator._hosts import hosts_or_skip
from tests.simulator._only_run import result_of
from tools.soaking.packets import datagrams, greetings

bare = partial(Cluster, Topology(worker=2), preload=(), timeout=30, network="namespaces")
PACKETS = 500


@pytest.fixture(autouse=True)
def _hosts() -> None:
    hosts_or_skip()


def _lossy(share: float) -> Link:
    return Link(src="worker:0", dst="worker:1", loss=f"{share:.0%}", one_way=True)


def _is_about(lost: int, share: float) -> bool:
    """Whether so many of all are this share, within five standard deviations: once in 1.7 million times it is not."""
    return abs(lost - PACKETS * share) < 5 * math.sqrt(PACKETS * share * (1 - share))


def test_the_first_packets_of_tcp_are_lost_as_often_as_asked(tmp_path: Path) -> None:
    """30 % of them, and not 51 %, which is what two chances of 30 % make."""
    result = result_of(bare(links=[_lossy(0.3)]), greetings, str(tmp_path), PACKETS)
    assert _is_about(PACKETS - result["worker:0"].value, 0.3)


def test_datagrams_are_lost_and_counted_one_by_one(tmp_path: Path) -> None:
    """A program that uses UDP alone has traffic on its link, and each datagram is counted, lost or not."""
    result = result_of(bare(links=[_lossy(0.3)]), datagrams, str(tmp_path), PACKETS)
    (there,) = result.links
    lost = PACKETS - result["worker:1"].value
    assert _is_about(lost, 0.3)
    assert (there.packets, there.lost) == (PACKETS, lost)


def test_probes_are_no_traffic() -> None:
    """A lossy link on which nothing but probes came by has had no effect, although some of these were lost."""
    with bare(links=[_lossy(0.5)]) as cluster:
        cluster.set_gate("worker:0", "step:0")
        with cluster.start(len, "") as run:
            assert run.wait_gate("worker:0", "step:0")
            for _ in range(5):
                run.network.probe("worker:0", "worker:1", 10.0)
            run.open_gate("worker:0")
            with pytest.raises(RunFailed, match="nothing came by on link"):
                run.join()


def test_what_the_relay_has_not_seen_is_the_cables() -> None:
    """Where both count, a link that only datagrams have used is there nevertheless."""
    cable = {("a", "b"): LinkCounters("a", "b", packets=3, lost=1), ("b", "a"): LinkCounters("b", "a")}
    relayed = [LinkCounters("b", "a", bytes=7)]
    assert joined(relayed, cable.values()) == (
        LinkCounters("a", "b", packets=3, lost=1),
        LinkCounters("b", "a", bytes=7),
    )
