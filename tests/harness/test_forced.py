"""`verify(forced=True)` with real tasks: each step is judged from the run's own variables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from harness import verify
from harness.cli import _lockstep
from harness.judging.verdict import Verdict
from simulator import FaultPlan, UsageError
from tests.harness._forced import STEPS, halving, logistic, sgd_fit, with_momentum
from tests.harness._programs import mlp, one_value
from tests.harness._sharing import sharing

_WRONG = (3, 7)


def _steps(verdict: Verdict) -> tuple[list[int], int]:
    found = verdict.to_json()
    return found["wrong_steps"], found["right_steps"]


@pytest.fixture
def few_noises(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pair will do: what is wrong here is wrong by far."""
    for module in ("forced", "reference"):
        monkeypatch.setattr(f"harness.running.{module}.MORE_SEEDS", ())


@pytest.mark.parametrize("strategy", ["mirrored-2", pytest.param("multi_worker-2", marks=pytest.mark.full)])
def test_a_mistake_at_two_steps_is_wrong_at_these_two(strategy: str) -> None:
    """And at no other, though each of the two leaves a wrong variable behind."""
    program = sharing(halving(_WRONG), halving())
    verdict = verify(program, strategy, tier="exact", forced=True)
    assert _steps(verdict) == ([*_WRONG], STEPS - len(_WRONG)), str(verdict)
    assert "steps 3 and 7 are wrong by themselves, 8 steps are right" in str(verdict)


@pytest.mark.full  # the steps that are right show it too
@pytest.mark.parametrize("strategy", ["mirrored-2", "multi_worker-2"])
def test_a_right_program_is_consistent_when_forced(strategy: str) -> None:
    """In the derived tier a real model is within bounds that come from forced reruns with noise."""
    verdict = verify(mlp(), strategy, forced=True)
    assert verdict, str(verdict)
    assert verdict.worst_ratio is not None
    assert 0 < verdict.worst_ratio < 0.5
    assert verdict.notes == ()


@pytest.mark.full  # the pure tests of forcing set what fit records
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_the_callback_of_fit_sets_weights_slots_and_running_means(flavour: str, few_noises: None) -> None:
    """One step of six is wrong; Keras's logs are means over the epoch, and those of later steps are right again."""
    verdict = verify(sharing(sgd_fit(flavour, wrong_at=2), sgd_fit(flavour)), "mirrored-2", forced=True)
    assert _steps(verdict) == ([2], 5), str(verdict)
    wrong = {finding.observable for finding in verdict.findings}
    assert wrong == {"loss", "variables", "metrics"}
    assert verdict.notes == ()


@pytest.mark.full  # tests of forcing follow such a run by its trace
def test_under_parameter_servers_each_epoch_is_judged_by_itself(few_noises: None) -> None:
    """Keras records the ends of epochs there; the reference is set at these, and the numbers agree."""
    verdict = verify(sgd_fit("tf_keras"), "parameter_server-1w1p", forced=True)
    assert verdict, str(verdict)
    # What forcing notes is not there; examples are taken by workers, where the coordinator does not see them.
    (note,) = verdict.notes
    assert note.startswith("examples were not seen of each replica")


def test_a_mistake_that_nothing_explains_is_looked_at_step_by_step(tmp_path: Path, few_noises: None) -> None:
    """Without being asked, in the derived tier; `explain=False` makes no such runs.

    What was wrong once makes all later steps wrong, unless each begins where the run was.
    """
    program = sharing(halving(_WRONG, divisor=6.0), halving())
    verdict = verify(program, "mirrored-2", out=tmp_path / "out")
    assert verdict.explanation is None, str(verdict)
    assert _steps(verdict) == ([*_WRONG], STEPS - len(_WRONG)), str(verdict)
    assert "forced" not in verdict.to_json()
    assert "8 steps are right; what is wrong at others follows" in " ".join(str(verdict).split())
    (wrong,) = (finding.text for finding in verdict.findings if finding.observable == "variables")
    assert wrong.startswith("step 3, variables 'w'[0]")
    assert "[the first of 8 differences]" in wrong
    again = CliRunner().invoke(_lockstep, ["report", str(tmp_path / "out"), "--json"], standalone_mode=False)
    assert msgspec.json.decode(again.stdout) == verdict.to_json()
    quick = verify(program, "mirrored-2", explain=False)
    assert (quick.outcome, quick.alone) == ("inconsistent", None)


@pytest.mark.full
@pytest.mark.parametrize("wrong_at", [45, 0])
def test_a_chaotic_training_is_judged_step_by_step(wrong_at: int, few_noises: None) -> None:
    """Judged as a whole it could not be wrong; by itself one step is seen to be, and all others to be right."""
    program = sharing(logistic(wrong_at), logistic())
    verdict = verify(program, "mirrored-2")
    assert verdict.forced, "only a verdict that found nothing wrong becomes one that is forced"
    assert any("judged by itself" in note for note in verdict.notes), str(verdict)
    assert bool(verdict) == (not wrong_at), str(verdict)
    if wrong_at:
        assert _steps(verdict) == ([wrong_at], 49), str(verdict)


def test_what_is_not_recorded_is_not_forced_and_named() -> None:
    """The slots of an optimizer carry a mistake on, which the verdict says."""
    verdict = verify(sharing(with_momentum(wrong_at=3), with_momentum()), "mirrored-2", tier="exact", forced=True)
    assert _steps(verdict) == ([3, 4, 5, 6], 2), str(verdict)
    (note,) = verdict.notes
    assert "variables of an optimizer change and are not recorded" in note
    assert "momentum" in note


def test_nan_is_gone_on_from(tmp_path: Path) -> None:
    """The step that makes it is wrong; those after it begin with NaN, where nothing can be judged, and a note says so.

    The same is said of the run when it is judged again from its files.
    """
    program = sharing(halving((4,), divisor=0.0), halving())
    out = tmp_path / "out"
    verdict = verify(program, "mirrored-2", tier="exact", forced=True, out=out)
    assert _steps(verdict) == ([4], 3), str(verdict)
    assert verdict.outcome == "inconsistent"
    (note,) = verdict.notes
    assert note.startswith("after step 4 the run's own variables are not finite")
    again = CliRunner().invoke(_lockstep, ["report", str(out), "--json"], standalone_mode=False)
    assert msgspec.json.decode(again.stdout) == verdict.to_json()


@pytest.mark.parametrize(
    "options",
    [
        {"interrupt_at": 2},
        {"interrupt_at": 2, "resume_strategy": "mirrored-4"},
        {"faults": FaultPlan()},
    ],
)
def test_runs_that_do_not_take_the_references_steps_are_refused(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything starts, also on the command line."""
    monkeypatch.setattr(
        sys.modules["harness.verify"], "reference_of", lambda *_, **__: pytest.fail("something was started")
    )
    with pytest.raises(UsageError, match="leave out interrupt_at, faults and restarts"):
        verify(one_value, "mirrored-2", forced=True, **options)


@pytest.mark.parametrize("options", [("--interrupt-at", "2"), ("--fault", "kind=kill,task=worker:1,step=2,restart=1s")])
def test_the_command_refuses_them_in_its_own_words(options: tuple[str, str]) -> None:
    """With exit code 2."""
    found = CliRunner().invoke(_lockstep, ["verify", "train.py:train", "--forced", *options])
    assert found.exit_code == 2
    assert "--forced" in found.output
    assert "leave out --interrupt-at" in " ".join(found.output.split())


def test_without_recorded_variables_there_is_nothing_to_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to record, and comes before the run."""
    monkeypatch.setattr(sys.modules["harness.verify"], "run_once", lambda *_, **__: pytest.fail("the run was started"))
    with pytest.raises(UsageError, match=r"records no variables.*record\.step\(variables=") as caught:
        verify(one_value, "mirrored-2", tier="exact", forced=True)
    assert "keras_callback" in str(caught.value)
