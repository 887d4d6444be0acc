"""What is measured of runs over machines, whatever leads to them: next to runs here, in turns, and of failures."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.bench_cluster import first_all_reduce
from benchmarks.measure import Figure, median, seconds_of
from simulator import Cluster, RunFailed, Topology
from simulator.journal import read_journal
from simulator.machines.engines.selection import engine_of
from simulator.machines.far.clock import measured
from simulator.run.options import Options
from simulator.wire.site import ClockQuery

_WORKERS = 4
_ROUNDS = 7
_STEPS = 200
_STEP_SECONDS = 0.005
_CLOCKS = 20
_KILLS = 3
_SECONDS_MAX = 60.0
_LOOK_SECONDS = 0.01


def all_reduce(machines: str, target: float, limit_of: str, kind: str) -> Figure:
    """Start 4 workers, all-reduce once, and stop: two on each of two machines and all here, in turns, both warm."""
    found: dict[str | None, list[float]] = {None: [], machines: []}
    with contextlib.ExitStack() as stack:
        clusters = {each: stack.enter_context(Cluster(Topology(worker=_WORKERS), machines=each)) for each in found}
        for number in range(_ROUNDS + 1):
            for each, cluster in clusters.items():
                seconds = seconds_of(lambda cluster=cluster: _all_reduce(cluster))  # type: ignore[misc]
                found[each] += [seconds] * (number > 0)
    return Figure(
        name=f"4 workers to first all-reduce, {kind}",
        figure=median(found[machines]),
        unit="s",
        target=target,
        limit_of=limit_of,
        peer=median(found[None]),
        samples=_ROUNDS,
    )


def step_is_heard(machines: str, target: float, kind: str) -> Figure:
    """How long after it was announced a step of a task on a machine is written down, in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "out")
        with Cluster(Topology(worker=2), preload=(), machines=machines, out=out) as cluster:
            cluster.run(_steps)
        events = [event for event in read_journal(out / "0" / "journal.jsonl") if event["event"] == "step"]
    late = [(event["t"] - event["at"]) * 1e3 for event in events]
    return Figure(
        name=f"a step is heard after, {kind}", figure=median(late), unit="ms", target=target, samples=len(late)
    )


def clocks(machines: str, kind: str) -> Figure:
    """By how much the clocks of machines may be wrong as stated, in milliseconds; both are this machine's.

    Raises:
        AssertionError: one is wrong by more.
    """
    stated = []
    engine = engine_of(machines)
    assert engine is not None
    with engine as reached:
        for machine in (*reached,) * _CLOCKS:
            clock = measured(lambda machine=machine: machine.ask(ClockQuery).at)  # type: ignore[misc]
            assert abs(clock.offset) <= clock.error, (clock.offset, clock.error)
            stated.append(clock.error * 1e3)
    return Figure(
        name=f"a clock is known to, {kind}", figure=median(stated), unit="ms", target=1.0, samples=len(stated)
    )


def killed(machines: str, what: str, kind: str) -> Figure:
    """How long after the grace of its peers a run names the task that was killed, or the machine whose site was.

    Args:
        machines: as of `Cluster`; two of them.
        what: `task` or `site`.
        kind: what leads there.
    """
    late = [_named_after(machines, what) - Options.peer_grace for _ in range(_KILLS)]
    return Figure(
        name=f"a killed {what} is named after, {kind}", figure=median(late), unit="s", target=1.0, samples=_KILLS
    )


def _named_after(machines: str, what: str) -> float:
    """Seconds from the kill to the failure of the run, by the name of the task of the second machine."""
    with tempfile.TemporaryDirectory() as directory, Cluster(Topology(worker=2), preload=(), machines=machines) as made:
        places = [Path(directory, f"worker:{number}") for number in range(2)]
        with made.start(_waits, directory) as run:
            deadline = time.monotonic() + _SECONDS_MAX
            while not all(place.exists() for place in places):
                assert time.monotonic() < deadline, "the tasks have not started"
                threading.Event().wait(_LOOK_SECONDS)
            task = psutil.Process(int(places[1].read_text()))
            victim = task if what == "task" else next(each for each in task.parents() if _is_site(each))
            victim.kill()
            at, took, cause = time.monotonic(), 0.0, None
            try:
                run.join()
            except RunFailed as failure:
                took, cause = time.monotonic() - at, failure.root_cause
    assert cause is not None, "the run has not failed"
    assert (cause.task, cause.kind) == ("worker:1", {"task": "Signal", "site": "MachineLost"}[what]), cause
    return took


def _is_site(process: psutil.Process) -> bool:
    return "_lockstep.site" in process.cmdline()


def _waits(directory: str) -> None:
    """Say who it is, at once, and wait."""
    new = Path(directory, f"{os.environ['LOCKSTEP_TASK']}.new")
    new.write_text(str(os.getpid()))
    new.replace(new.with_suffix(""))
    while True:
        signal.pause()


def _all_reduce(cluster: Cluster) -> None:
    values = [task.value for task in cluster.run(first_all_reduce).values()]
    assert values == [float(_WORKERS)] * _WORKERS, values


def _steps() -> None:
    from simulator import step

    for _ in range(_STEPS):
        step()
        threading.Event().wait(_STEP_SECONDS)
