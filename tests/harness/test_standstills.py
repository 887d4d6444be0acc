"""How long a run stood still beyond what its faults explain: made-up journals, and a lock that was left behind."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from harness.report.timeline import timeline_of
from harness.search import subject_of
from harness.search.standstills import Standstill, longest_gap, seconds_lost, standstills
from simulator import FaultPlan
from tests.harness._journals import DELAY, KILL, Event, Script, killed

HUNTED = Path(__file__).parents[2] / "tools" / "hunting" / "programs" / "alone.py"
USUAL = 1.0


def _alone(*steps: float) -> Script:
    return Script("worker:0").steps("worker:0", list(steps))


def _lost(script: Script, *plan: Event) -> list[Standstill]:
    faults = FaultPlan.from_mapping({"fault": list(plan)}).faults
    return standstills(timeline_of(script.events, plan), faults, USUAL)


def test_a_run_that_goes_on_has_lost_nothing() -> None:
    """A restart within a second or two is what every kill needs."""
    assert _lost(killed(), KILL) == []
    assert longest_gap(timeline_of(killed().events, [KILL])) == pytest.approx(1.0)


def test_a_gap_without_a_fault_is_lost_but_for_what_is_usual() -> None:
    """Three times the longest pause of a healthy run, and a second, are its own."""
    (found,) = _lost(_alone(1.0, 21.0))
    assert found.lost == pytest.approx(20.0 - 3 * USUAL - 1.0)
    assert str(found) == "20.0 s between step 1 of worker:0 and step 2 of worker:0"
    assert _lost(_alone(1.0, 4.9)) == []


def test_what_lasts_explains_its_time_and_as_much_after_it() -> None:
    """A connection that was cut off doubles its waits; after that nothing is explained."""
    delay = _alone(1.0, 30.0).fired(2.0, DELAY).undone(10.0, DELAY)
    (found,) = _lost(delay, DELAY)
    assert found.lost == pytest.approx(29.0 - 16.0 - 4.0)


@pytest.mark.parametrize(
    ("says", "seconds"),
    [
        ({"kind": "kill"}, 0.0),
        ({"kind": "kill", "restart": "28s"}, 28.0),
        ({"kind": "preempt", "grace": "12s"}, 12.0),
        ({"kind": "late_start", "duration": "20s"}, 20.0),
        ({"kind": "crash_loop", "times": 3, "restart": "5s"}, 15.0),
    ],
)
def test_the_time_that_a_plan_orders_is_not_lost(says: Event, seconds: float) -> None:
    """Before or after what is known of it, and until its peers have noticed what does not last."""
    fault = {"id": "one", "task": ["worker:0"], "of": ["worker:0"], "step": 0 if says["kind"] == "late_start" else 1}
    (found,) = _lost(_alone(1.0, 90.0).fired(1.0, fault | says), fault | says)
    assert found.lost == pytest.approx(89.0 - 13.0 - seconds - 4.0)
    (found,) = _lost(_alone(1.0, 90.0).fired(90.0, fault | says), fault | says)
    assert found.lost == pytest.approx(89.0 - seconds - 4.0)


def test_a_fault_that_was_never_undone_explains_all_that_follows() -> None:
    """As a link that is slow until the end."""
    assert _lost(_alone(1.0, 90.0).fired(2.0, DELAY), DELAY) == []


def _killed_and_back(begin: float, step: float) -> Script:
    script = Script("worker:1").steps("worker:1", [1.0, 2.0])
    script.exit(2.1, "worker:1", -9, asked=True).fired(2.2, KILL, ended={"worker:1": "SIGKILL"})
    script.add(begin, "restart", task="worker:1", incarnation=1, reason="policy job, 1 of 1")
    return script.steps("worker:1", [step], 1).exit(step + 0.1, "worker:1", 0, 1)


def test_who_is_back_and_does_nothing_has_lost_that_time() -> None:
    """Until it is started again TensorFlow may have to notice; from then on nobody is waited for."""
    assert _lost(_killed_and_back(14.0, 15.0), KILL) == []
    (found,) = _lost(_killed_and_back(3.0, 33.0), KILL)
    assert found.after == "the start of worker:1, incarnation 1"
    assert found.before == "step 1 of worker:1, incarnation 1"
    assert found.lost == pytest.approx(30.0 - 4.0)
    assert seconds_lost([found, dataclasses.replace(found, lost=2.0)]) == pytest.approx(28.0)


def test_the_time_of_a_restore_is_not_lost() -> None:
    """It is a matter of size; what is between its end and the next step is not."""
    script = _killed_and_back(3.0, 33.0).saved(4.0, "worker:1", "ckpt-1", 12.0, restores=True, incarnation=1)
    (found,) = _lost(script, KILL)
    assert found.after == "the end of a restore by worker:1, incarnation 1"
    assert found.lost == pytest.approx(17.0 - 4.0)


@pytest.mark.full
def test_a_lock_that_was_left_is_slowness_and_nothing_else() -> None:
    """Real: killed while it held the lock, it waits 20 s for nobody; killed elsewhere, it does not."""
    subject = subject_of(f"{HUNTED}:weak_waits_for_lock", "default", tier="exact", timeout=60.0)
    held = {"kind": "kill", "task": "local:0", "phase": "file_operation", "nth": 3}
    slow = subject.run(FaultPlan.from_mapping({"fault": [held]}))
    assert slow.symptom == "slowness", str(slow)
    assert slow.text.startswith("no task started, ended, made a step, saved or restored for 20.")
    assert subject.run(FaultPlan.from_mapping({"fault": [{"kind": "kill", "task": "local:0", "step": 1}]}))
    patient = dataclasses.replace(subject, slowness=30.0)
    assert patient.run(FaultPlan.from_mapping({"fault": [held]}))
