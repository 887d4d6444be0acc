"""Machines that are lost by plan or without one, and jobs that go on elsewhere; all of them are this one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from simulator import Cluster, FaultPlan, RunFailed, Topology, UsageError
from simulator.faults import Cut, MachineLost
from simulator.faults.kinds import cut, machine_lost
from simulator.journal import read_journal
from simulator.machines.far.lease import Lease
from simulator.machines.far.machine import FarMachine
from simulator.machines.placement import Placement
from simulator.machines.protocol import Machine
from tests.simulator._only_run import failure_of, result_of
from tests.simulator.test_machines import _sites

SHORT = Lease(every=0.1, silent=0.3, seconds=1.0, margin=1.0)


def _machines(names: str) -> str:
    return f"env MACHINE={{}}:{names}"


def _cluster(names: str, **options: Any) -> Cluster:
    """Two workers on machines that are given up after 2 s."""
    made = Cluster(Topology(worker=2), preload=(), timeout=60, machines=_machines(names), **options)
    made._engine.lease = SHORT  # type: ignore[union-attr]
    return made


def _where() -> tuple[str, str]:
    from simulator import step

    for _ in range(3):
        step()
    return os.environ["MACHINE"], os.environ["TF_CONFIG"].partition('"task"')[0]


def _off(**values: Any) -> FaultPlan:
    return FaultPlan(faults=(MachineLost(task="worker:1", step=2, **values),))


@pytest.mark.parametrize(
    ("names", "then", "policy"),
    [
        ("m0,m1,m2", "m2", "job"),
        pytest.param("m0,m1", "m0", "job", marks=pytest.mark.full),
        pytest.param("m0,m1,m2", "m2", "task", marks=pytest.mark.full),
    ],
)
def test_a_job_goes_on_without_the_machine_that_it_has_lost(names: str, then: str, policy: str, tmp_path: Path) -> None:
    """On one that had nothing to do, else on those that are left; with other addresses, and not before the fence."""
    out = tmp_path / "out"
    result = result_of(_cluster(names, faults=_off(), restarts=1, restart_policy=policy, out=out), _where)
    assert [task.value[0] for task in result.values()] == ["m0", then]
    assert [task.machine for task in result.values()] == ["m0", then]
    assert [each.machine for each in result["worker:1"].incarnations] == ["m1", then]
    events = {event["event"]: event for event in read_journal(out / "0" / "journal.jsonl")}
    assert events["fired"]["effect"] == {"lost": {"m1": ["worker:1"]}}
    assert events["moved"]["machines"] == {"worker:0": "m0", "worker:1": then}
    assert events["moved"]["addresses"] != events["start"]["addresses"]
    # It was heard last at most one question before its end was seen.
    assert events["moved"]["t"] - events["machine_lost"]["t"] > SHORT.seconds + SHORT.margin - 2 * SHORT.every
    assert len({task.value[1] for task in result.values()}) == 1


def test_a_planned_loss_without_restarts_is_no_failure() -> None:
    """The others go on, as after a planned death of a task."""
    result = result_of(_cluster("m0,m1", faults=_off()), _where)
    assert result["worker:0"].value[0] == "m0"
    assert (result["worker:1"].value, result["worker:1"].error) == (None, None)
    assert result.faults[0].ended == ("worker:1",)


@pytest.mark.full
def test_a_machine_that_nobody_planned_to_lose_costs_a_restart(tmp_path: Path) -> None:
    """Of all tasks; without one that is left the run fails by the machine's name."""
    with _cluster("m0,m1", restarts=1, out=tmp_path / "out") as cluster:
        cluster.set_gate("worker:1", "step:2")
        with cluster.start(_where) as run:
            assert run.wait_gate("worker:1", "step:2")
            next(site for site in _sites() if site.environ()["MACHINE"] == "m1").kill()
            result = run.join()
    assert [(task.incarnation, task.value[0]) for task in result.values()] == [(1, "m0"), (1, "m0")]
    with Cluster(Topology(worker=1), preload=(), timeout=60, machines=_machines("m0"), restarts=1) as cluster:
        cluster.set_gate("worker:0", "step:2")
        with cluster.start(_where) as run:
            assert run.wait_gate("worker:0", "step:2")
            next(iter(_sites())).kill()
            with pytest.raises(RunFailed, match="MachineLost"):
                run.join()


def test_a_machine_that_stays_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault then had no effect, whatever was asked of the machine."""
    monkeypatch.setattr(FarMachine, "power_off", lambda self: None)
    monkeypatch.setattr(machine_lost, "_SEEN_SECONDS_MAX", 0.2)
    failure = failure_of(_cluster("m0,m1", faults=_off()), _where)
    assert failure.root_cause.kind == "FaultWithoutEffect"
    assert "the loss of m1 was not seen within 0.2 s" in failure.root_cause.message


@pytest.mark.full
@pytest.mark.parametrize(
    ("cable", "why"),
    [
        ("true {}", "the loss of m1 was not seen within 0.2 s"),
        ("sh -c 'echo no cable at $0 >&2; exit 3' {}", "not be pulled: .* ended with exit code 3: no cable at m1"),
    ],
)
def test_a_cable_that_is_not_pulled_is_no_cut(cable: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the command says."""
    monkeypatch.setattr(cut, "_LOST_SECONDS_MAX", 0.2)
    plan = FaultPlan(faults=(Cut(task="worker:1", step=2),))
    with _cluster("m0,m1", faults=plan, cable=cable) as cluster, pytest.raises(RunFailed, match=why):
        cluster.run(_where)


@pytest.mark.parametrize(
    ("fault", "options", "why"),
    [
        (MachineLost(task="worker:1", step=1), {}, "kind machine_lost takes a machine away, and all tasks are on this"),
        (Cut(task="worker:1", step=1), {"machines": _machines("m0")}, "no means of its own; give a command"),
        (None, {"machines": _machines("m0"), "cable": "true"}, "--machines-cable 'true' is not understood"),
        (None, {"machines": _machines("m0"), "cable": "no-such-command {}"}, "--machines-cable: 'no-such-command' is"),
        (None, {"cable": "true {}"}, "cable is about machines"),
    ],
)
def test_what_cannot_be_taken_away_is_refused(fault: Any, options: dict[str, Any], why: str) -> None:
    """Before anything starts, with the reason."""
    plan = FaultPlan(faults=() if fault is None else (fault,))
    with pytest.raises(UsageError, match=why):
        Cluster(Topology(worker=2), faults=plan, **options)


class _Lost:
    """A machine of a placement, of which it is known when its tasks are dead."""

    def __init__(self, name: str, dead_at: float = 0.0, *, there: bool = True) -> None:
        self.name, self.dead_at, self.there = name, dead_at, there
        self.opened: list[tuple[float, Sequence[str]]] = []

    def listen(self, hear: Any) -> None:
        """Nothing is told."""

    def open(self, share: Any) -> Mapping[str, str]:
        self.opened.append((time.monotonic(), share.tasks))
        return dict.fromkeys(share.tasks, f"{self.name}:1")

    def close(self) -> Sequence[int]:
        return ()


def test_nothing_is_started_elsewhere_before_what_ran_there_is_dead() -> None:
    """However early the machine was named; those on a machine with fewer tasks come first."""
    lost, full, empty = _Lost("a"), _Lost("b"), _Lost("c")
    tasks = {"worker:0": "a", "worker:1": "a", "worker:2": "b", "worker:3": "b", "worker:4": "c"}
    placement = Placement(cast("list[Machine]", [lost, full, empty]), tasks)
    placement.open(lambda event: None, list(tasks), Path(), bytes)
    lost.there, lost.dead_at = False, time.monotonic() + 0.3
    addresses = placement.move()
    assert full.opened[-1][0] >= lost.dead_at
    assert empty.opened[-1][0] >= lost.dead_at
    assert len(lost.opened) == 1
    assert addresses == {
        "worker:0": "c:1",
        "worker:1": "b:1",
        "worker:2": "b:1",
        "worker:3": "b:1",
        "worker:4": "c:1",
    }
