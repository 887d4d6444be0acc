"""Each kind of fault of links on fake tasks that talk through the relay, and triggers on what a link carries."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, Link, RunFailed, RunResult, Topology
from simulator.faults import Delay, Fault, Flap, Jitter, Partition, Rate, Restart, Stall
from tests.simulator._faults import effects, events, plan_of, talk

LINK: dict[str, Any] = {"src": "worker:1", "dst": "worker:0"}
AT: dict[str, Any] = {**LINK, "of": "worker:1", "step": 3}


def _run(out: Path, *faults: Fault, count: int = 12, seconds: float = 0.02) -> RunResult:
    with Cluster(Topology(worker=2), preload=(), timeout=40, faults=plan_of(*faults), out=out) as cluster:
        return cluster.run(talk, count, seconds)


def _gap(out: Path, after: int) -> float:
    """Seconds from this step to the next."""
    seen = {event["number"]: event["at"] for event in events(out, "step")}
    return float(seen[after + 1] - seen[after])


def test_delay_is_seen_in_the_round_trip(tmp_path: Path) -> None:
    """The probe and the task's own steps are late by twice the delay, and no longer after the undo."""
    _run(tmp_path, Delay(**AT, delay="30ms", until=6))
    effect, came = effects(tmp_path)
    assert effect["round_trip_seconds"] >= 0.06
    assert came["bytes"] > 0
    assert _gap(tmp_path, 4) >= 0.06


def test_jitter_varies_the_round_trip(tmp_path: Path) -> None:
    """A probe of several is off by a quarter of it."""
    _run(tmp_path, Jitter(**AT, jitter="40ms", until=6))
    effect = effects(tmp_path)[0]
    assert abs(effect["round_trip_seconds"] - effect["without_jitter"]) >= 0.01


def _on_this_link(out: Path, link: Link, *faults: Fault) -> RunResult:
    with Cluster(Topology(worker=2), preload=(), timeout=40, faults=plan_of(*faults), links=[link], out=out) as cluster:
        return cluster.run(talk, 20, 0.0)


def test_delays_are_seen_under_jitter_that_hides_them(tmp_path: Path) -> None:
    """By two of five round trips it seems to be shorter than the delay of both ways, so that one proves nothing."""
    link = Link(**LINK, jitter="40ms", jitter_kind="normal")
    faults = [Delay(**{**AT, "step": step}, delay="20ms", until=step + 1) for step in range(2, 18, 2)]
    _on_this_link(tmp_path, link, *faults)
    seen = [event["effect"]["round_trip_seconds"] >= 0.04 for event in events(tmp_path, "fired")]
    assert seen == [True] * len(faults)


def test_a_delay_that_was_not_put_in_force_is_found_under_jitter_that_looks_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jitter of nearly each round trip is longer than the delays would be; the condition is left out."""
    monkeypatch.setattr(Delay, "conditions", lambda self: {"stall": "0s"})
    with pytest.raises(RunFailed, match="FaultWithoutEffect"):
        _on_this_link(tmp_path, Link(**LINK, jitter="40ms", jitter_kind="pareto"), Delay(**AT, delay="5ms", until=5))


@pytest.mark.full
def test_jitter_that_was_not_put_in_force_is_found_on_a_link_with_a_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each round trip has the delay, and none is off by a quarter of what the jitter would be."""
    monkeypatch.setattr(Jitter, "conditions", lambda self: {"stall": "0s"})
    with pytest.raises(RunFailed, match="FaultWithoutEffect"):
        _on_this_link(tmp_path, Link(**LINK, delay="20ms"), Jitter(**AT, jitter="400ms", until=5))


def test_jitter_is_the_same_as_a_fault_and_as_a_link() -> None:
    """Without a delay both vary around the one that is there, and put none in its place."""
    assert Jitter(**AT, jitter="5ms").link() == Link(**LINK, jitter="5ms", jitter_kind="uniform")


def test_rate_bounds_what_passes(tmp_path: Path) -> None:
    """At 20 kB/s the 2 kB of each step need 0.1 s once the burst is used up; the counters do not exceed the rate."""
    _run(tmp_path, Rate(**AT, rate="20kB/s", until=8))
    effect, came = effects(tmp_path)
    assert effect["rate_bytes_per_second"] == 20_000
    assert came["bytes"] >= 2000


@pytest.mark.parametrize("mode", ["hold", "stall"])
def test_bytes_that_are_kept_cost_only_time(tmp_path: Path, mode: str) -> None:
    """The step after the trigger waits, the connection stays, and every byte arrives."""
    lasts = {**AT, "duration": "400ms"}
    result = _run(tmp_path, Stall(**lasts) if mode == "stall" else Partition(mode=mode, **lasts))
    assert result["worker:1"].value == 0
    assert effects(tmp_path)[0] == {"probe": "silent"}
    assert _gap(tmp_path, 3) >= 0.4


@pytest.mark.parametrize(("mode", "probe"), [("blackhole", "silent"), ("reset", "refused"), ("refuse", "refused")])
def test_a_cut_breaks_connections_or_refuses_new_ones(tmp_path: Path, mode: str, probe: str) -> None:
    """The task has to connect again, except where only new connections are refused and it has one."""
    result = _run(tmp_path, Partition(mode=mode, **AT, duration="400ms"))
    again = result["worker:1"].value
    assert again == 0 if mode == "refuse" else again > 0
    assert effects(tmp_path)[0] == {"probe": probe}


def test_one_way_strikes_one_direction(tmp_path: Path) -> None:
    """The requests get there late, the answers do not: a round trip has the delay once."""
    # So long that a busy machine does not look like the other direction's delay.
    _run(tmp_path, Delay(**AT, delay="500ms", one_way=True, until=4))
    assert 0.5 <= effects(tmp_path)[0]["round_trip_seconds"] < 1.0


def test_flap_comes_and_goes(tmp_path: Path) -> None:
    """Down so many times, each proved by a probe."""
    _run(tmp_path, Flap(**AT, times=2, down="300ms", up="50ms"))
    assert effects(tmp_path)[0]["times_down"] == 2


def test_a_byte_of_a_link_is_a_trigger(tmp_path: Path) -> None:
    """The relay itself puts the condition in force at that byte; a kill follows the relay's word."""
    _run(tmp_path, Partition(mode="reset", **LINK, bytes_="5kB", duration="200ms"))
    assert effects(tmp_path)[0] == {"probe": "refused"}
    (fired,) = events(tmp_path, "link_fired")
    assert fired["bytes"] == 5000
    _run(tmp_path / "kill", Restart("worker:1", **LINK, bytes_="4kB"))
    steps = [event["number"] for event in events(tmp_path / "kill", "step") if event["incarnation"] == 0]
    assert 3 <= len(steps) <= 12


def test_a_connection_of_a_link_is_a_trigger(tmp_path: Path) -> None:
    """With the first connection that is opened."""
    _run(tmp_path, Delay(delay="5ms", **LINK, connections=1, duration="100ms"))
    assert events(tmp_path, "fired")[0]["trigger"] == "connections=1"


def test_a_link_fault_that_nothing_meets_fails_the_run(tmp_path: Path) -> None:
    """Nobody ever sends that much; and a delay under which no byte comes by has delayed nothing."""
    with pytest.raises(RunFailed, match="FaultNotFired"):
        _run(tmp_path / "a", Delay(delay="5ms", **LINK, bytes_="50MB"))
    with pytest.raises(RunFailed, match="nothing came by"):
        _idle(tmp_path / "b")


def _idle(out: Path) -> RunResult:
    """worker:2 talks to nobody, so a fault of its links has no effect."""
    plan = plan_of(Delay(delay="5ms", src="worker:2", dst="worker:0", of="worker:1", step=2, until=4))
    with Cluster(Topology(worker=3), preload=(), timeout=40, faults=plan, out=out) as cluster:
        return cluster.run(_talk_or_wait)


def _talk_or_wait() -> None:
    if os.environ["LOCKSTEP_TASK"] != "worker:2":
        talk(6, 0.01)


def test_conditions_that_the_link_has_already_are_no_effect(tmp_path: Path) -> None:
    """Of a delay of 20 ms on a link of 20 ms, where one of 25 ms shows."""
    with pytest.raises(RunFailed, match="the link has had these conditions before"):
        _on_this_link(tmp_path / "same", Link(**LINK, delay="20ms"), Delay(**AT, delay="20ms", until=5))
    _on_this_link(tmp_path / "longer", Link(**LINK, delay="20ms"), Delay(**AT, delay="25ms", until=5))
