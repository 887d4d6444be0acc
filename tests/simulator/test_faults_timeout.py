"""The timeout bounds a run whatever a fault of its plan waits for."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from simulator import Cluster, FaultPlan, RunFailed, Topology, UsageError
from simulator.faults import DiskFull, Kill, LateStart, Nan, Pause, Preempt, Slow
from tests.simulator._faults import own_agent, plan_of, steps

# What a run may take beyond its timeout: stacks of its tasks, a last look at its faults, and the end of its processes.
_SECONDS_OVER_MAX = 12.0


def _ends(plan: FaultPlan, body: object, *args: object, timeout: float = 1.0) -> tuple[RunFailed, float]:
    with (
        Cluster(Topology(worker=2), preload=(), timeout=timeout, faults=plan) as cluster,
        cluster.start(body, *args) as run,  # type: ignore[arg-type]
    ):
        began = time.monotonic()
        with pytest.raises(RunFailed) as caught:
            run.join()
        return caught.value, time.monotonic() - began


def test_no_time_per_step_is_a_usage_error() -> None:
    """It would hold nothing, and never be proved."""
    for nothing in ("0s", "0ms", "0ms..9ms"):
        with pytest.raises(UsageError, match=r"per_step=0m?s is out of range; give more than 0s"):
            plan_of(Slow("worker:1", step=1, per_step=nothing))


def test_a_step_that_cannot_come_any_more_is_not_waited_for() -> None:
    """The task has returned: the run ends when the others do, long before the timeout."""
    plan = plan_of(Slow("worker:1", of="worker:0", step=3, per_step="1ms"))
    failed, seconds = _ends(plan, _worker_0_steps, timeout=60)
    assert "worker:1 ended without another step, so that none could be held" in str(failed)
    assert seconds < 20


def test_what_a_pause_has_held_up_does_not_go_on_when_the_time_is_over() -> None:
    """It is undone at the end, and the job is over by then."""
    failed, _ = _ends(plan_of(Pause("worker:1", step=3)), steps, 12, 0.01)
    assert failed.root_cause.kind == "Hang"
    assert failed.result["worker:1"].steps == 3


def _worker_0_steps() -> None:
    agent = own_agent()
    if agent.spec.task == "worker:0":
        steps(3, 0.1)


def _stands(count: int) -> None:
    """Announce steps, and then hang."""
    steps(count, 0.0)
    threading.Event().wait()


@pytest.mark.parametrize(
    "fault",
    [
        Slow("worker:1", step=3, per_step="1ms"),  # waits for another step
        pytest.param(Nan("worker:1", step=4, target="gradient"), marks=pytest.mark.full),  # for a gradient
        pytest.param(Preempt("worker:1", step=3, grace="1h"), marks=pytest.mark.full),  # for an end within the grace
        Kill("worker:1", log="never"),  # for its trigger
        # Of what follows only the undoing is left to wait for, as of the first.
        *(
            pytest.param(fault, marks=pytest.mark.full)
            for fault in (
                Pause("worker:1", step=3),
                LateStart("worker:1", duration="1h"),
                Slow("worker:1", step=3, factor=2.0),
                Kill("worker:1", step=3, restart="900ms"),
                DiskFull("worker:1", step=3),
            )
        ),
    ],
)
def test_a_run_ends_in_time(fault: str) -> None:
    """Whatever the fault still waits for."""
    _, seconds = _ends(plan_of(fault), _deaf_and_stands, 3)
    assert seconds < 1.0 + _SECONDS_OVER_MAX


def test_an_interruption_does_not_wait_for_a_fault() -> None:
    """Ctrl-C or SIGTERM while a fault waits for what proves it: it is undone, and nobody waits for the proof."""
    plan = plan_of(Preempt("worker:1", step=3, grace="1h"))
    began = float("-inf")
    with (
        Cluster(Topology(worker=2), preload=(), timeout=3600, faults=plan) as cluster,
        contextlib.suppress(KeyboardInterrupt),
        cluster.start(_deaf_and_stands, 3) as run,
    ):
        run.wait_step("worker:1", 3, timeout=20)
        began = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - began < _SECONDS_OVER_MAX


def _deaf_and_stands(count: int) -> None:
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _stands(count)
