"""What training does under each condition of the links: the numbers of an undisturbed run, or an error in time.

Bounds of detection times are those of docs/faults-measured.md and ten seconds more, since the machine may be busy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import StrategyCase
from scenarios.programs.faulted import asynchronous
from scenarios.programs.faulted.judging import problems
from scenarios.programs.faulted.surviving import COMPRESSED, Told, plan_of, running, survive
from scenarios.programs.faulted.synchronous import LIMIT, train
from simulator import Link, RunResult, UsageError
from simulator.faults import Delay, Fault, Flap, Jitter, LinkFault, Partition, Rate, Slow, Stall

TABLE = "What training does when links are disturbed"
MARGIN_SECONDS = 10.0
FULL = pytest.mark.full

Report = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True)
class Cut:
    """A cut link, and what has to come of it.

    Attributes:
        fault: which.
        errors: classes of exceptions, one of which is the first.
        seconds: least and most until then, without the margin.
        env: of the tasks, on top of what the simulator sets.
        limit: seconds for a collective.
        restarts: how often the job may be restarted.
    """

    fault: Fault
    errors: tuple[str, ...]
    seconds: tuple[float, float]
    env: Mapping[str, str]
    limit: float | None = LIMIT
    restarts: int = 1


ENDS: dict[str, Any] = {"src": "worker:0", "dst": "worker:1", "step": 7}
# Healed before the job has been restarted, which takes longer than the limit.
FOR: dict[str, Any] = {"duration": f"{LIMIT + 0.5}s"}
UNAVAILABLE, LATE = "UnavailableError", "DeadlineExceededError"

CUTS = {
    # A ping each second that is to be answered within a second.
    "blackhole_keepalive": Cut(Partition(**ENDS, duration="2500ms"), (UNAVAILABLE,), (0.9, 2.0), COMPRESSED, None),
    "reset": Cut(Partition(mode="reset", **ENDS, duration="1s"), (UNAVAILABLE,), (0.0, 2.0), {}),
}
CUTS_FULL = {
    "blackhole_limit": Cut(Partition(**ENDS, **FOR), (LATE,), (LIMIT, LIMIT), {}),
    "hold_too_long": Cut(Partition(mode="hold", **ENDS, **FOR), (LATE,), (LIMIT, LIMIT), {}),
    "blackhole_there": Cut(Partition(**ENDS, **FOR, one_way=True), (LATE,), (LIMIT, LIMIT), {}),
    "blackhole_back": Cut(
        Partition(src="worker:1", dst="worker:0", step=7, **FOR, one_way=True), (LATE,), (LIMIT, LIMIT), {}
    ),
    # When it comes back, connections that have lost bytes are reset. A job that is restarted soon meets the second cut.
    "flap_blackhole": Cut(
        Flap(mode="blackhole", **ENDS, times=2, down="1s", up="200ms"), (UNAVAILABLE,), (1.0, 1.0), {}, restarts=2
    ),
    "blackhole_heartbeats": Cut(Partition(**ENDS, duration="12s"), (LATE, UNAVAILABLE), (5.0, 10.0), {}, None),
}


def _cases(quick: Mapping[str, Any], full: Mapping[str, Any]) -> list[Any]:
    return [
        *(pytest.param(case, id=name) for name, case in quick.items()),
        *(pytest.param(case, id=name, marks=FULL) for name, case in full.items()),
    ]


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("cut", _cases(CUTS, CUTS_FULL))
def test_a_cut_ends_in_an_exact_restart(strategy: StrategyCase, cut: Cut, tmp_path: Path, report_row: Report) -> None:
    """A link that is cut is noticed in time, no worker hangs, and the restarted job repeats the undisturbed numbers."""
    told = survive(strategy, plan_of(cut.fault), train, tmp_path, env=cut.env, limit=cut.limit, restarts=cut.restarts)
    assert problems(told, tmp_path, 4) == []
    assert told.detection is not None
    kind, _, seconds = told.detection
    assert told.crashed or kind in cut.errors
    least, most = cut.seconds
    assert told.crashed or least - 0.1 <= seconds
    assert seconds <= most + MARGIN_SECONDS
    outcome = "job restarted, resumed after step 4, exact"
    outcome += "; no limit was set" * (cut.limit is None) + ", but keepalive" * bool(cut.env)
    report_row(TABLE, told.row(strategy, outcome))


BEARABLE = {
    "hold": Partition(mode="hold", **ENDS, duration="1s"),
    "delay_one_way": Delay(delay="20ms", one_way=True, **ENDS),
}
BEARABLE_FULL = {
    "hold_back": Partition(mode="hold", **ENDS, duration="1s", one_way=True),
    "delay": Delay(delay="20ms", **ENDS),
    "jitter": Jitter(jitter="10ms", jitter_kind="normal", **ENDS),
    "pareto": Jitter(jitter="5ms", jitter_kind="pareto", **ENDS),
    "rate": Rate(rate="200kB/s", **ENDS),
    "stall": Stall(**ENDS, duration="1s"),
    # Connections that are there already go on.
    "refuse": Partition(mode="refuse", **ENDS),
}
DELAY_SECONDS = 0.02


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("condition", _cases(BEARABLE, BEARABLE_FULL))
def test_a_bad_link_costs_only_time(
    strategy: StrategyCase, condition: LinkFault, tmp_path: Path, report_row: Report
) -> None:
    """Slow links, and partitions shorter than the detection time, change no number, and nothing is restarted."""
    told = survive(strategy, plan_of(condition), train, tmp_path, restarts=0, env={}, limit=None)
    assert problems(told, tmp_path) == []
    assert not told.of("error")
    seconds = _seconds_per_step(told)
    if isinstance(condition, Delay):
        # A ring of two pulls twice in a row; each pull crosses the link in one direction or in both.
        assert seconds >= 2 * DELAY_SECONDS * (1 if condition.one_way else 2)
    report_row(TABLE, told.row(strategy, f"went on, exact; {seconds:.2f} s a step"))


@FULL
@pytest.mark.strategies("multi_worker-2")
def test_a_flapping_link_costs_only_time(strategy: StrategyCase, tmp_path: Path, report_row: Report) -> None:
    """A link that is held three times while training goes on changes no number, and nothing is restarted."""
    plan = plan_of(
        Flap(src="worker:0", dst="worker:1", step=1, times=3, down="400ms", up="200ms"),
        Slow("worker:1", step=1, per_step="150ms"),
    )
    told = survive(strategy, plan, train, tmp_path, restarts=0, env={}, limit=None)
    assert problems(told, tmp_path) == []
    assert told.of("fired", kind="flap")[0]["effect"]["times_down"] == 3
    report_row(TABLE, told.row(strategy, f"went on, exact; {_seconds_per_step(told):.2f} s a step"))


def _seconds_per_step(told: Told) -> float:
    """Mean over the steps after the fault, in the first worker."""
    times = [event["at"] for event in told.of("step", task="worker:0") if event["t"] > told.struck_at]
    return float(times[-1] - times[0]) / (len(times) - 1)


@FULL
@pytest.mark.strategies("multi_worker-2")
def test_a_link_is_cut_at_a_byte(strategy: StrategyCase, tmp_path: Path, report_row: Report) -> None:
    """The trigger may be a byte of the link itself: the cut comes in the middle of a message, and nothing is torn."""
    # By counting, it is in step 6; a retry or another version of TensorFlow may send more.
    fault = Partition(src="worker:1", dst="worker:0", bytes_="5500B", **FOR)
    told = survive(strategy, plan_of(fault), train, tmp_path, env={})
    resumed = {note for note in (0, 4, 8) if not problems(told, tmp_path, note)}
    assert resumed
    report_row(TABLE, told.row(strategy, f"job restarted, resumed after step {max(resumed)}, exact"))


@pytest.mark.strategies("parameter_server-2w1p")
@pytest.mark.parametrize(
    "link",
    [
        Link(src="worker", dst="ps", delay="20ms", one_way=True),
        pytest.param(Link(src="ps", dst="worker", delay="20ms", one_way=True), marks=FULL),
        pytest.param(Link(src="chief", dst="*", delay="10ms", jitter="5ms"), marks=FULL),
        pytest.param(Link(src="worker:1", dst="ps", rate="50kB/s"), marks=FULL),
    ],
    ids=["to_ps", "from_ps", "chief", "rate"],
)
def test_a_slow_link_loses_no_update(strategy: StrategyCase, link: Link, report_row: Report) -> None:
    """Parameter-server training over slow links, one way or both, applies each update exactly once."""
    with running(strategy, asynchronous.train, cluster={"links": [link], "timeout": 60.0}) as (_, join):
        told = join()
    assert told.failure is None
    value = told.result["chief:0"].value
    assert value["weights"] == [-asynchronous.LEARNING_RATE] * asynchronous.UPDATES
    assert value["counter"] == asynchronous.UPDATES
    assert _carried(told.result) > 0
    report_row(
        "Parameter-server training over slow links",
        {"link": link, "updates": value["counter"], "seconds": f"{value['seconds']:.1f}"},
    )


def _carried(result: RunResult) -> int:
    """Bytes between workers and parameter servers, in either direction."""
    between = {"worker", "ps"}
    return sum(
        link.bytes for link in result.links if {link.src.partition(":")[0], link.dst.partition(":")[0]} == between
    )


@FULL
@pytest.mark.strategies("parameter_server-2w1p")
@pytest.mark.parametrize("mode", ["reset", "hold"])
def test_a_worker_that_is_cut_off_loses_no_update(strategy: StrategyCase, mode: str, report_row: Report) -> None:
    """A link between chief and worker that is reset or held for a while: every update is applied, few of them twice."""
    fault = Partition(mode=mode, src="chief:0", dst="worker:1", of="chief:0", step=1, duration="1s")
    with running(strategy, asynchronous.train, cluster={"faults": plan_of(fault), "timeout": 60.0}) as (_, join):
        told = join()
    assert told.failure is None
    value = told.result["chief:0"].value
    counts = [int(number / -asynchronous.LEARNING_RATE) for number in value["weights"]]
    assert min(counts) >= 1
    assert sum(counts) - asynchronous.UPDATES <= value["retries"]
    assert mode == "reset" or not value["retries"]
    report_row(TABLE, told.row(strategy, f"{sum(counts)} updates of {asynchronous.UPDATES} scheduled"))


@pytest.mark.strategies("multi_worker-2")
def test_a_link_that_never_carries_enough_fails_the_run(strategy: StrategyCase, tmp_path: Path) -> None:
    """Negative control: all numbers are right, and yet the run fails, since the planned cut has never come."""
    told = survive(strategy, plan_of(Partition(src="worker:0", dst="worker:1", bytes_="1GB")), train, tmp_path, env={})
    assert told.failure is not None
    assert told.failure.root_cause.kind == "FaultNotFired"


def test_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    """Negative control: a plan with a link that does not exist fails before anything starts."""
    from harness import strategy_case

    with pytest.raises(UsageError, match="worker:7"):
        survive(
            strategy_case("multi_worker-2"),
            plan_of(Delay(src="worker:0", dst="worker:7", step=1)),
            train,
            tmp_path,
        )
