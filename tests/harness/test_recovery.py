"""Whether a run has recovered, in one sentence: made-up journals; a real job is in `test_cli_run`."""

from __future__ import annotations

from harness.report.timeline import Recovery, as_data, lines, recovery_of, timeline_of
from tests._present import present
from tests.harness._journals import DELAY, KILL, Event, Script, killed


def _of(script: Script, *plan: Event) -> Recovery | None:
    return recovery_of(timeline_of(script.events, plan))


def _text(script: Script, *plan: Event) -> str:
    found = present(_of(script, *plan))
    return found.text


def test_a_task_that_was_back_has_lost_what_nobody_restored() -> None:
    """Killed after two steps, without a checkpoint: both are lost. The time counts from the strike."""
    found = present(_of(killed(), KILL))
    assert found == Recovery("worker:1", "kill-1", 1, found.seconds, 2, 2)
    assert _text(killed(), KILL) == "recovered: worker:1 was back 2.1 s after kill-1; 2 more steps; 2 steps were lost"


def test_a_restored_step_is_not_lost() -> None:
    """What was saved after the second of two steps is gone on from."""
    script = killed()
    for task in ("worker:0", "worker:1"):
        script.saved(2.05, task, "a/ckpt-2", seconds=0.01, step=2, state=2)
        script.saved(3.5, task, "a/ckpt-2", restores=True, incarnation=1)
    assert _text(script, KILL).endswith("; 2 steps were lost")  # what was restored was not trained
    for task in ("worker:0", "worker:1"):
        script.begins(3.95, task, 1, state=2)
    assert _text(script, KILL).endswith("; no step was lost")


def test_a_failure_without_a_fault_counts_from_its_end() -> None:
    """Nothing of the plan has struck: the restarts alone have brought it back."""
    script = Script("worker:0").steps("worker:0", [1.0]).fails(1.5, "worker:0").exit(1.6, "worker:0", 1)
    script.add(1.7, "restart", task="worker:0", incarnation=1, reason="policy job, 1 of 1", at=1.7)
    script.steps("worker:0", [2.5, 2.6], incarnation=1).exit(3.0, "worker:0", incarnation=1)
    script.begins(0.5, "worker:0").begins(2.4, "worker:0", 1)
    assert _text(script) == "recovered: worker:0 was back 1.0 s after its end; 2 more steps; 1 step was lost"


def test_a_task_that_nobody_started_again_has_not_recovered() -> None:
    """Nor has one that was started again and made no step."""
    script = Script("worker:0", "worker:1").steps("worker:0", [1.0, 2.0]).steps("worker:1", [1.0, 2.0])
    script.exit(2.1, "worker:1", -9, asked=True).fired(2.2, KILL, ended={"worker:1": "SIGKILL"})
    assert _text(script, KILL) == "not recovered: worker:1 did not come back after kill-1"
    script.add(3.0, "restart", task="worker:1", incarnation=1, reason="restart of kill-1", at=3.0)
    expected = "not recovered: worker:1 was started again, and made no step after kill-1"
    assert _text(script, KILL) == expected
    script.exit(4.0, "worker:1", incarnation=1)
    expected = "nothing to recover: worker:1 was started again, made no step and ended well after kill-1"
    assert _text(script, KILL) == expected


def test_a_task_that_ends_well_within_its_grace_has_nothing_to_recover() -> None:
    """It is not started again, since it is done."""
    script = Script("worker:0").steps("worker:0", [1.0, 2.0]).exit(2.1, "worker:0", asked=True)
    script.fired(2.2, {**KILL, "kind": "preempt", "task": ["worker:0"]}, ended={"worker:0": "exit code 0"})
    found = _text(script, {**KILL, "kind": "preempt", "task": ["worker:0"], "of": ["worker:0"]})
    assert found == "nothing to recover: worker:0 ended well after kill-1"


def test_a_job_that_fails_again_before_any_step_has_not_recovered() -> None:
    """As where an import fails; without steps a process is back that goes on, or has ended well."""

    def ending(code: int) -> Script:
        script = Script("worker:0").exit(1.0, "worker:0", 1)
        script.add(1.2, "restart", task="worker:0", incarnation=1, reason="policy job, 1 of 1", at=1.2)
        return script.exit(2.0, "worker:0", code, incarnation=1)

    assert _text(ending(1)) == "not recovered: worker:0 was started again, and made no step after its end"
    assert _text(ending(0)).startswith("recovered: worker:0 was back 0.2 s after its end")


def test_several_restarts_are_counted() -> None:
    """The sentence is of the last one; what was lost is of all of them."""
    script = Script("worker:0")
    for number, at in enumerate((1.0, 3.0, 5.0)):
        if number:
            script.add(at - 0.5, "restart", task="worker:0", incarnation=number, reason="policy job", at=at - 0.5)
        script.begins(at - 0.1, "worker:0", number)
        script.steps("worker:0", [at], incarnation=number).exit(at + 0.5, "worker:0", number < 2, incarnation=number)
    assert (
        _text(script)
        == "recovered: worker:0 was back, the last of 2 times, 1.5 s after its end; 1 more step; 2 steps were lost"
    )


def test_what_a_server_held_is_not_known() -> None:
    """Its variables are in no step of its own: the next step of anybody shows that the cluster is whole again."""
    script = Script("chief:0", "ps:0").steps("chief:0", [1.0, 2.0, 4.0]).exit(2.5, "ps:0", -9)
    script.add(3.0, "restart", task="ps:0", incarnation=1, reason="restart of kill-1", at=3.0)
    found = _text(script)
    assert found == ("recovered: ps:0 was back 1.5 s after its end; 1 more step; how many steps were lost is not known")


def test_a_link_that_was_slow_has_its_next_step() -> None:
    """A fault that ends nobody is over when it is undone and a step follows."""
    script = Script("worker:0").fired(1.0, DELAY).undone(2.0, DELAY).steps("worker:0", [0.5, 2.25, 2.5])
    assert _text(script, DELAY) == "recovered: the next step came 1.2 s after delay-1; 2 more steps"


def test_steps_that_are_made_while_a_fault_is_in_force_are_told() -> None:
    """Nothing has to recover then; the next step is the first that came."""
    script = Script("worker:0").fired(1.0, DELAY).undone(2.0, DELAY).steps("worker:0", [0.5, 1.25, 1.75, 2.25])
    assert _text(script, DELAY) == "went on: 2 steps were made while delay-1 was in force; 1 more step"
    found = present(_of(script, DELAY))
    assert (found.seconds, found.meanwhile) == (0.25, 2)


def test_a_run_without_an_interruption_says_nothing() -> None:
    """Nor does one that was ended from outside, of which nobody knows."""
    script = Script("worker:0").steps("worker:0", [1.0]).exit(2.0, "worker:0")
    assert _of(script) is None
    assert not any("recovered" in line for line in lines(timeline_of(script.events)))
    assert as_data(timeline_of(script.events))["recovery"] is None
    assert _of(killed().add(5.2, "end", how="interrupted"), KILL) is None


def test_text_and_data_have_the_sentence() -> None:
    """`lockstep report` prints it below the faults, and with `--json` it is `recovery`."""
    timeline = timeline_of(killed().events, [KILL])
    said = "recovered: worker:1 was back 2.1 s after kill-1; 2 more steps; 2 steps were lost"
    assert said in lines(timeline)
    assert as_data(timeline)["recovery"]["text"] == said
