"""Faults of links between hosts, where packets are lost: each kind that the kernel does, on fake tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, RunFailed, RunResult, Topology, UsageError
from simulator.faults import Fault, Loss, Partition, Rate
from tests.simulator._faults import effects, events, plan_of
from tests.simulator._hosts import hosts_or_skip, stream

AT: dict[str, Any] = {"src": "worker:0", "dst": "worker:1", "of": "worker:0", "step": 2}


def _run(out: Path, fault: Fault, count: int = 100_000, pieces: int = 6) -> RunResult:
    hosts_or_skip()
    plan = plan_of(fault)
    with Cluster(Topology(worker=2), preload=(), timeout=40, faults=plan, out=out, network="namespaces") as cluster:
        return cluster.run(stream, count, pieces)


def test_loss_costs_packets_and_no_bytes(tmp_path: Path) -> None:
    """Some packets are lost while it lasts, TCP sends them again, and every byte arrives."""
    result = _run(tmp_path, Loss(loss="10%", **AT, until=5))
    assert result["worker:1"].value[0] == 600_000
    assert result["worker:0"].value[2] > 0
    effect, came = effects(tmp_path)
    assert effect["loss"] == 0.1
    assert 0 < came["lost"] < came["packets"]


def test_a_loss_that_loses_nothing_did_not_happen(tmp_path: Path) -> None:
    """The control: so small a loss has no effect, which fails the run."""
    with pytest.raises(RunFailed, match=r"none of \d+ packets was lost"):
        _run(tmp_path, Loss(loss="0.0001%", **AT, until=4), count=10)


def test_a_loss_needs_packets() -> None:
    """Over loopback there are none, which is said before anything starts."""
    with pytest.raises(UsageError, match="network=namespaces"):
        Cluster(Topology(worker=2), faults=plan_of(Loss(loss="1%", **AT)))


def test_a_partition_is_outlived_by_tcp(tmp_path: Path) -> None:
    """Packets vanish while it lasts, and the same connection goes on afterwards; no relay is needed for it."""
    result = _run(tmp_path, Partition(mode="blackhole", **AT, duration="400ms"), count=1000)
    assert result["worker:1"].value[0] == 6000
    effect, came = effects(tmp_path)
    assert effect["probe"] == "silent"
    assert came["lost"] > 0
    assert came["connections"] == 0


def test_a_partition_by_reset_is_the_relays(tmp_path: Path) -> None:
    """What the kernel cannot do to a connection from outside goes through the relay, also between hosts."""
    with pytest.raises(RunFailed):
        _run(tmp_path, Partition(mode="reset", **AT, duration="200ms"), count=1000)
    assert effects(tmp_path)[0]["probe"] == "refused"


def test_a_rate_is_the_kernels(tmp_path: Path) -> None:
    """At 1 MB/s the pieces of 100 kB take their time while it lasts."""
    result = _run(tmp_path, Rate(rate="1MB/s", **AT, until=5))
    assert result["worker:0"].value[1] > 0.2
    effect, came = effects(tmp_path)
    assert effect["rate_bytes_per_second"] == 1_000_000
    assert came["packets"] > 200


def test_a_trigger_on_bytes_is_met_to_the_byte(tmp_path: Path) -> None:
    """The relay counts them, and then does the condition itself."""
    _run(tmp_path, Partition(mode="hold", src="worker:0", dst="worker:1", bytes_="250kB", duration="300ms"))
    (fired,) = events(tmp_path, "link_fired")
    assert fired["bytes"] == 250_000
