"""`verify(faults=, restarts=)`: right programs are consistent under faults, wrong ones are found, in real clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness import verify
from harness.cli import _lockstep
from harness.judging.verdict import Verdict
from harness.saved_run import load_run
from harness.verify import judge
from simulator import FaultPlan, Link, RunFailed, Topology, UsageError
from simulator.faults import Crash, Fault, Kill, Nan
from tests._present import present
from tests.harness._called import json_of, lockstep
from tests.harness._counting import train
from tests.harness._resumable import training

__all__ = ["train"]

KILL = Kill("worker:1", step=5, restart="10ms")


def _plan(*faults: Fault) -> FaultPlan:
    return FaultPlan(faults=faults)


def _laws(verdict: Verdict, status: str) -> set[str]:
    return {judgement.law for judgement in verdict.judgements if judgement.status == status}


@pytest.mark.full
def test_a_worker_that_is_killed_and_resumes_is_consistent(tmp_path: Path) -> None:
    """The job goes on from the last save; both parts are judged, and judged again from the files alike."""
    verdict = verify(training(), "multi_worker-2", faults=_plan(KILL), timeout=60, out=tmp_path)
    assert verdict, str(verdict)
    assert {"resumes_exactly", "variables_match_reference", "examples_match_reference"} <= _laws(verdict, "held")
    assert verdict.interrupted == {"at": 5, "resumed_at": 4, "resume_strategy": "multi_worker-2"}
    assert "  faults: kill worker:1 step=5 restart=10ms; started again: worker:0 1x, worker:1 " in str(verdict)
    parts, reference, saved = load_run(tmp_path)
    kept: dict[str, Any] = {key: saved[key] for key in ("program", "tasks", "seconds", "faults")}
    assert str(judge(parts, reference, **kept)) == str(verdict)
    assert FaultPlan.from_mapping(saved["faults"]["plan"]).expand(Topology(worker=2)).faults[0].kind == "kill"
    assert "resumed under multi_worker-2 at step 4" in lockstep("report", tmp_path).output


@pytest.mark.full  # in the quick profile docs/faults.md shows the same on one device
def test_an_optimizer_that_is_not_saved_is_named() -> None:
    """The same fault, and a checkpoint without the slots."""
    verdict = verify(training("slots"), "multi_worker-2", faults=_plan(KILL), timeout=60)
    assert "resumes_exactly" in _laws(verdict, "broken")
    assert present(verdict.explanation).rule == "slots_not_restored"


@pytest.mark.full  # in the quick profile by the command, below, as the next one
def test_a_fault_that_never_fires_fails_the_run() -> None:
    """The program is right, and has no step 50."""
    with pytest.raises(RunFailed, match="FaultNotFired"):
        verify(training(), "multi_worker-2", faults=_plan(Kill("worker:1", step=50)), timeout=60)


@pytest.mark.full
def test_without_restarts_a_death_fails_the_run() -> None:
    """Nobody came to the end, so there is nothing to judge."""
    with pytest.raises(RunFailed, match="local:0"):
        verify(training(), "mirrored-2", faults=_plan(Crash("local:0", step=3)), restarts=0, timeout=60)


@pytest.mark.full
def test_one_process_can_be_killed_twice() -> None:
    """A strategy without a cluster has a task, too; its three parts are aligned one after another."""
    kills = [Kill("local:0", step=step) for step in (3, 4)]
    verdict = verify(training(), "mirrored-2", faults=_plan(*kills), timeout=60)
    assert verdict, str(verdict)
    assert verdict.tasks["local:0"]["incarnation"] == 2
    # After step 3 it goes on from 2, so that the fourth step then is 6, reported before it is saved.
    assert verdict.interrupted == {"at": 6, "resumed_at": 4, "resume_strategy": "mirrored-2"}


# In the quick profile tests/simulator/test_faults_tensorflow.py changes real numbers, and test_explain_faults.py has
# what recorded ones break.
@pytest.mark.full
def test_a_wrong_number_is_noticed_by_a_law() -> None:
    """NaN in one element of a variable: the fault changes the numbers, whatever the program does."""
    fault = Nan("local:0", target="variable", step=3, name="bias:0", element=0)
    verdict = verify(training(), "mirrored-2", faults=_plan(fault), timeout=60)
    assert {"finite", "variables_match_reference"} <= _laws(verdict, "broken")
    assert present(verdict.first_divergence).step in (3, 4)


@pytest.mark.full  # scenarios/test_programs_under_faults.py kills one
def test_a_worker_of_parameter_servers_is_replaced() -> None:
    """Killed between two steps it had no closure, so that no gradient is missing."""
    fault = Kill("worker:1", of="chief:0", step=2, restart="10ms")
    verdict = verify(training(), "parameter_server-2w1p", faults=_plan(fault), timeout=60)
    assert verdict, str(verdict)
    assert verdict.tasks["worker:1"]["incarnation"] == 1
    assert {"examples_match_reference", "variables_match_reference"} <= _laws(verdict, "held")


def _repeating(strategy: Any, record: Any, *, reports: str) -> None:
    """Closures that go on for a while after their update; their number, or a sum as well, is reported."""
    import tensorflow as tf

    with strategy.scope():
        updates = tf.Variable(0, dtype=tf.int64, name="updates")
        total = tf.Variable(0.0, name="total")

    @tf.function
    def update() -> Any:
        total.assign_add(1.0)
        updates.assign_add(1)
        tf.print("applied")
        return tf.while_loop(lambda i: i < 30_000, lambda i: i + 1, [tf.constant(0)])

    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        for _ in range(6):
            coordinator.schedule(update)
        coordinator.join()
    else:
        for _ in range(6):
            update()
    record.step(variables=[updates] if reports == "number" else [updates, total])


def _reports_number(strategy: Any, record: Any) -> None:
    _repeating(strategy, record, reports="number")


def _reports_sum(strategy: Any, record: Any) -> None:
    _repeating(strategy, record, reports="sum")


@pytest.mark.full
def test_updates_count_between_those_scheduled_and_those_run_again() -> None:
    """An update is applied, its worker dies before the closure ends, and the coordinator runs it again: 7 of 6."""
    fault = Kill("worker:1", log="applied", restart="10ms")
    verdict = verify(_reports_number, "parameter_server-2w1p", faults=_plan(fault), tier="exact", timeout=60)
    assert verdict, str(verdict)
    assert "updates_counted" in _laws(verdict, "held")
    wrong = verify(_reports_sum, "parameter_server-2w1p", faults=_plan(fault), tier="exact", timeout=60)
    assert _laws(wrong, "broken") == {"variables_match_reference"}
    assert present(wrong.explanation).rule == "update_repeated"


@pytest.mark.parametrize(
    ("strategy", "options", "said"),
    [
        ("mirrored-2", {"faults": _plan(Kill("worker:1", step=2))}, "tasks are local:0"),
        ("multi_worker-2", {"faults": _plan(Kill("worker:2", step=2))}, "worker:2"),
        ("mirrored-2", {"faults": FaultPlan(links=(Link("worker", "ps", delay="2ms"),))}, "one local process"),
        ("mirrored-2", {"faults": FaultPlan(topology=Topology(worker=2))}, "was written for"),
        ("mirrored-2", {"restarts": 2}, "restarts answer faults"),
        ("mirrored-2", {"restart_policy": "job"}, "restarts answer faults"),
        ("mirrored-2", {"faults": _plan(Kill("local:0", step=2)), "interrupt_at": 2}, "either interrupted"),
        ("mirrored-2", {"faults": _plan(Kill("local:0", step=2)), "restarts": -1}, "restarts=-1"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(strategy: str, options: dict[str, Any], said: str) -> None:
    """Before anything runs."""
    with pytest.raises(UsageError, match=said):
        verify(training(), strategy, **options)


def test_the_command_judges_under_faults(train: str, tmp_path: Path) -> None:
    """Exit code 0 or 1; the JSON has the expanded plan, also what the file of a plan and --fault say together."""
    (tmp_path / "plan.toml").write_text('seed = 3\n[[fault]]\nkind = "kill"\ntask = "*"\nstep = "2..3"\n')
    plan = ("--plan", str(tmp_path / "plan.toml"), "--fault", "kind=slow,per_step=1ms,task=local:0,step=1")
    options = ("--strategy", "default", "--exact", "--timeout", "60", *plan, "--seed", "5")
    found = json_of("verify", f"{train}:train", *options)
    drawn = found["faults"]["plan"]
    assert (drawn["seed"], [fault["kind"] for fault in drawn["fault"]]) == (5, ["kill", "slow"])
    assert found["interrupted"]["at"] == drawn["fault"][0]["step"]
    assert "nothing was resumed" in lockstep("verify", f"{train}:forgetful", "--json", *options, code=1).stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--fault", "kind=kill,task=local:0,step=9"), 3, "FaultNotFired"),
        (("--fault", "kind=kill,task=local:0,step=2", "--restarts", "0"), 3, "local:0"),
        (("--fault", "kind=kil,task=local:0,step=2"), 2, "kind 'kil' is unknown"),
        (("--fault", "kind=kill,task=local:0,stp=2"), 2, "no key 'stp'"),
        (("--fault", "kind=kill,task=worker:1,step=2"), 2, "tasks are local:0"),
        (("--link", "src=worker,dst=ps,delay=2ms"), 2, "one local process"),
        (("--restarts", "2"), 2, "restarts answer faults"),
        (("--fault", "kind=kill,task=local:0,step=2", "--interrupt-at", "2"), 2, "either interrupted"),
    ],
)
def test_exit_codes_of_plans_that_cannot_be_judged(options: tuple[str, ...], code: int, said: str, train: str) -> None:
    """3 for a fault that did not fire and a run that did not end, 2 for what is not understood."""
    arguments = ["verify", f"{train}:train", "--strategy", "default", "--exact", "--timeout", "60", *options]
    result = CliRunner().invoke(_lockstep, arguments, standalone_mode=code != 3)
    assert (result.return_value if code == 3 else result.exit_code) == code, result.output
    assert said in result.output
