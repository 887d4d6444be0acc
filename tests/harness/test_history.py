"""The canonical history of a run, and the first difference between two."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.history import Deviation, History, first_difference, history
from harness.report.timeline import timeline_of
from tests.harness._journals import DELAY, KILL, Script, killed

NOTHING = timeline_of(Script("worker:0").events)


def _steps(count: int) -> list[str]:
    return [f"step {number}" for number in range(1, count + 1)]


def test_what_it_holds() -> None:
    """For each task its steps and gates, from the beginning in a new process; for the plan its faults."""
    again = ["a new process", *_steps(2)]
    assert history(killed().events) == {
        "worker:0": [*_steps(2), *again],
        "worker:1": [*_steps(2), "stood at step:2", *again],
        "plan": ["kill-1: fired at step=2, ended={worker:1: SIGKILL}", "kill-1: undone"],
    }


def test_a_process_without_a_step_does_not_count() -> None:
    """Whether a task was started once or twice before its next step is left to milliseconds."""
    twice = killed()
    place = next(number for number, event in enumerate(twice.events) if event["event"] == "restart")
    spare = {"event": "hello", "task": "worker:1", "incarnation": 1, "pid": 7}
    twice.events.insert(place, {"t": 1002.95, **spare})
    assert history(twice.events) == history(killed().events)
    twice.add(9.0, "step", task="worker:1", incarnation=1, number=3, at=9.0)
    assert history(twice.events) != history(killed().events)


def test_numbers_of_incarnations_do_not_count() -> None:
    """The undo of a death names the new incarnation, which may have become a later one by then."""
    numbers = []
    for number in (1, 2):
        script = Script("worker:1").fired(1.0, KILL).undone(2.0, KILL)
        script.events[-1]["effect"] = {"restarted": {"worker:1": number}}
        numbers.append(history(script.events)["plan"])
    assert numbers[0] == numbers[1] == ["kill-1: fired at step=2", "kill-1: undone"]


def test_times_do_not_count() -> None:
    """A run that is slower has the same history."""
    slow, quick = Script("worker:0").steps("worker:0", [1, 9]), Script("worker:0").steps("worker:0", [0.1, 0.2])
    assert history(slow.events) == history(quick.events)


def test_points_of_checkpoints_stand_between_steps() -> None:
    """A save that comes a step later is a difference."""

    def saved(first: int) -> Script:
        script = Script("worker:0").steps("worker:0", [1.0, 2.0])
        gate = {"t": 1003.0, "event": "gate", "task": "worker:0", "incarnation": 0, "gate": "phase:after_save:1"}
        script.events.insert(len(script.events) - first, gate)
        return script

    early, late = saved(1), saved(0)
    assert history(early.events)["worker:0"] == ["step 1", "stood at phase:after_save:1", "step 2"]
    assert first_difference(history(early.events), history(late.events), NOTHING) == Deviation(
        lane="worker:0", after="step 1", saved="stood at phase:after_save:1", now="step 2"
    )


def test_saves_stand_between_steps() -> None:
    """What was saved and restored, from where, by which call, and how it failed; not how long it took."""
    script = Script("worker:0").add(0.1, "hello", task="worker:0", incarnation=0, pid=1)
    script.saved(0.2, "worker:0", None, restores=True).steps("worker:0", [1.0])
    script.saved(1.1, "worker:0", "ck/ckpt-1", bytes=7).saved(1.2, "worker:0", "/a/b/ckpt-2", failed="OSError")
    script.saved(1.3, "worker:0", "s3://a/b", asynchronous="call").saved(1.4, "worker:0", "b", asynchronous="thread")
    script.saved(1.5, "worker:0", "c", unfinished=True)
    kind = "tf.train.CheckpointManager.save"
    assert history(script.events)["worker:0"] == [
        "restored nothing by tf.train.Checkpoint.restore",
        "step 1",
        f"saved ck/ckpt-1 by {kind}",
        f"failed to save ckpt-2 by {kind}, OSError",
        f"began to save b by {kind}",
    ]


def test_where_and_how_long_do_not_count_and_what_does() -> None:
    """Another directory or another duration is the same history; another name, call, order or outcome is not."""

    def of(path: str = "/a/ckpt-1", seconds: float = 0.1, late: bool = False, **fields: Any) -> History:
        script = Script("worker:0")
        script.saved(2.0, "worker:0", path, seconds, **fields).steps("worker:0", [3.0])
        return history(script.events[::-1] if late else script.events)

    assert of() == of("/b/c/ckpt-1", 0.3, bytes=9)
    for other in (of("/a/ckpt-2"), of(kind="keras.Model.save"), of(failed="OSError"), of(late=True), of(restores=True)):
        assert first_difference(of(), other, NOTHING) is not None


def test_what_a_process_restored_before_it_was_replaced_does_not_count() -> None:
    """A process that another follows before its first step is left to milliseconds; the last one counts in any case."""
    spare = killed()
    place = next(number for number, event in enumerate(spare.events) if event["event"] == "restart")
    spare.saved(2.96, "worker:1", "ckpt-1", 0.01, restores=True, incarnation=1)
    hello = {"t": 1002.95, "event": "hello", "task": "worker:1", "incarnation": 1, "pid": 7}
    spare.events[place:place] = [hello, spare.events.pop()]
    assert history(spare.events) == history(killed().events)
    alone = Script("worker:0").add(0.1, "hello", task="worker:0", incarnation=0, pid=1)
    alone.saved(1.0, "worker:0", "model.keras")
    assert history(alone.events)["worker:0"] == ["saved model.keras by tf.train.CheckpointManager.save"]


def test_a_fault_that_did_not_fire_comes_first() -> None:
    """The plan says in words what the steps show in numbers."""
    now = Script("worker:0", "worker:1").events
    difference = first_difference(history(killed().events), history(now), timeline_of(killed().events, [KILL]))
    assert difference is not None
    assert (difference.lane, difference.after, difference.now) == ("plan", None, None)
    assert "kill-1: fired at step=2" in str(difference)


def test_a_loose_trigger_is_named() -> None:
    """A fault at a time strikes at another step each time, and the report says so."""
    script = Script("worker:0").steps("worker:0", [1.0]).fired(1.0, DELAY)
    now = {**history(script.events), "worker:0": _steps(2)}
    told = str(first_difference(history(script.events), now, timeline_of(script.events, [DELAY])))
    assert told == (
        "worker:0, after step 1: the saved run has nothing more, this one step 2 "
        "(the trigger of delay-1 is not reproducible to the step)"
    )


LANES = st.dictionaries(st.sampled_from(["worker:0", "worker:1"]), st.lists(st.sampled_from(_steps(3)), max_size=6))


@given(LANES, LANES)
def test_a_difference_is_found_if_and_only_if_there_is_one(
    one: dict[str, list[str]], two: dict[str, list[str]]
) -> None:
    """Nothing is the difference of equal histories; otherwise both agree up to it and not on it."""
    found = first_difference(one, two, NOTHING)
    lanes = {lane for lane in (*one, *two) if one.get(lane, []) != two.get(lane, [])}
    assert (found is None) == (not lanes)
    if found is not None:
        assert found.lane in lanes
        assert found.saved != found.now


def test_the_earliest_parting_of_several_tasks() -> None:
    """What happened later usually follows from it."""
    one = {"worker:0": _steps(3), "worker:1": _steps(2)}
    two = {"worker:0": _steps(2), "worker:1": _steps(1)}
    found = first_difference(one, two, NOTHING)
    assert found is not None
    assert (found.lane, found.after) == ("worker:1", "step 1")


@pytest.mark.parametrize("missing", ["worker:0", "plan"])
def test_a_missing_lane_is_a_difference(missing: str) -> None:
    """A task that did nothing in one of the runs is not overlooked."""
    full = {"worker:0": _steps(1), "plan": ["kill-1: kill fired"]}
    less = {lane: entries for lane, entries in full.items() if lane != missing}
    assert first_difference(full, less, NOTHING) is not None
    assert first_difference(less, full, NOTHING) is not None
