"""Real programs, killed and started again: right ones are consistent, and of the wrong ones each mistake is named."""

from __future__ import annotations

import pytest

from harness import verify
from harness.judging.verdict import Verdict
from harness.subject.program import Program
from tests.harness._resumable import STEPS, fitting, looping, training


def _resumed(verdict: Verdict) -> tuple[int, int]:
    """The step after which a consistent run was killed, and the one at which it was resumed."""
    assert verdict, str(verdict)
    assert {"resumes_exactly", "resumed_from_older", "variables_match_reference"} <= _laws(verdict, "held")
    assert verdict.interrupted is not None
    return verdict.interrupted["at"], verdict.interrupted["resumed_at"]


def _laws(verdict: Verdict, status: str) -> set[str]:
    return {judgement.law for judgement in verdict.judgements if judgement.status == status}


def _rule(program: Program, strategy: str, at: int) -> str | None:
    return _rule_of(verify(program, strategy, interrupt_at=at))


def _rule_of(verdict: Verdict) -> str | None:
    assert not verdict
    assert verdict.explanation is not None, str(verdict)
    # A process that follows is given the examples of the run, so that wrong ones make no wrong variables.
    only_data = verdict.explanation.rule == "data_restarted" and verdict.ledger is not None
    # Nor does it go on from a slot that was lost: the part begins otherwise.
    laws = {"examples_match_reference"} if only_data else {"resumes_exactly", "begins_alike"}
    assert laws & _laws(verdict, "broken"), str(verdict)
    return verdict.explanation.rule


@pytest.mark.parametrize(
    ("strategy", "resume"),
    [
        pytest.param("mirrored-2", None, marks=pytest.mark.full),
        pytest.param("mirrored-2", "mirrored-4", marks=pytest.mark.full),
        pytest.param("multi_worker-2", "mirrored-1", marks=pytest.mark.full),
        pytest.param("mirrored-2", "multi_worker-2", marks=pytest.mark.full),
        # In the quick profile scenarios/test_checkpoints.py interrupts these.
        pytest.param("parameter_server-1w1p", None, marks=pytest.mark.full),
        pytest.param("parameter_server-1w1p", "mirrored-2", marks=pytest.mark.full),
        pytest.param("mirrored-2", "parameter_server-1w1p", marks=pytest.mark.full),
    ],
)
def test_a_program_that_resumes_is_consistent(strategy: str, resume: str | None) -> None:
    """Saved every second step with its input's position and killed after step 5, it does step 5 again."""
    verdict = verify(training(), strategy, interrupt_at=5, resume_strategy=resume)
    assert _resumed(verdict) == (5, 4)
    assert verdict.strategy == strategy
    assert f"interrupted after step 5, resumed under {resume or strategy} at step 4" in str(verdict)
    assert {"loss_matches_reference", "examples_match_reference"} <= _laws(verdict, "held")


@pytest.mark.full
@pytest.mark.parametrize("at", [2, 8])
def test_the_kill_comes_before_the_program_can_save_the_step(at: int) -> None:
    """Saved after every step, it loses just that step; also the last one, when only the end of the run is left.

    Each step is judged by itself, in parts as well as in one, also where it is asked for that: also the one that was
    reported right before the kill, and done again.
    """
    verdict = verify(training(every=1), "mirrored-2", interrupt_at=at, forced=True)
    assert _resumed(verdict) == (at, at - 1)
    losses = next(law for law in verdict.judgements if law.law == "loss_matches_reference")
    assert losses.compared == STEPS + 1


@pytest.mark.parametrize("optimizer", ["momentum", pytest.param("adam", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("mistake", "rule"),
    [
        pytest.param("scratch", "restarted_from_scratch", marks=pytest.mark.full),
        pytest.param("slots", "slots_not_restored", marks=pytest.mark.full),
        # tests/harness/test_interrupt_rules.py has these two from recorded numbers.
        pytest.param("counter", "slots_not_restored", marks=pytest.mark.full),
        pytest.param("data", "data_restarted", marks=pytest.mark.full),
        pytest.param("loop", "data_restarted", marks=pytest.mark.full),
    ],
)
def test_mistakes_in_resuming_are_named(mistake: str, rule: str, optimizer: str) -> None:
    """With slots, counter and examples reported; the rules know each other's mistakes apart.

    The ledger of both parts shows who was seen twice and never: an input that begins anew after step 4 of 8 gives its
    first half twice and its second never.
    """
    verdict = verify(training(mistake, optimizer), "mirrored-2", interrupt_at=5)
    assert _rule_of(verdict) == rule
    if mistake == "data":
        assert verdict.ledger is not None
        assert [line.split()[0] for line in verdict.ledger.splitlines()] == ["step", *"12345678", "over"]
        assert "48 too many, 48 missing of 96" in verdict.ledger


@pytest.mark.full  # tests/harness/test_interrupt_rules.py has the same from recorded numbers
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_missing_slots_are_named_where_they_were_not_reported(optimizer: str) -> None:
    """From the variables' first update alone."""
    assert _rule(training("slots", optimizer, slots=False), "mirrored-2", 5) == "slots_not_restored"


@pytest.mark.full  # under mirrored-2 above; right ones of several workers are in scenarios/test_checkpoints.py
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("strategy", ["multi_worker-2", "parameter_server-1w1p"])
def test_mistakes_are_named_in_clusters(strategy: str, optimizer: str) -> None:
    """The same for several clients and for a coordinator's chief."""
    assert _rule(training("slots", optimizer), strategy, 5) == "slots_not_restored"


@pytest.mark.full
def test_a_program_that_never_saves_is_inconsistent() -> None:
    """Its numbers are right, and the work until the interruption is lost."""
    verdict = verify(training(every=0), "mirrored-2", interrupt_at=3)
    assert _laws(verdict, "broken") == {"resumes_exactly"}
    assert "record.directory held nothing" in str(verdict)
    assert verdict.explanation is not None
    assert verdict.explanation.rule == "restarted_from_scratch"


@pytest.mark.full
@pytest.mark.parametrize(
    ("mistake", "lost"), [("ends_early", "1 step was"), pytest.param("silent", "3 steps were", marks=pytest.mark.full)]
)
def test_steps_that_are_never_done_are_inconsistent(mistake: str, lost: str) -> None:
    """A resumed run that stops before the end, or records nothing at all, does not pass."""
    verdict = verify(training(mistake), "mirrored-2", interrupt_at=5)
    assert {"resumes_exactly", "steps_match_reference"} <= _laws(verdict, "broken")
    assert f"{lost} never done" in str(verdict)


@pytest.mark.full  # in the quick profile scenarios/test_checkpoints.py has models of both Kerases, right and wrong
@pytest.mark.parametrize(("flavour", "optimizer"), [("keras", "Adam"), ("tf_keras", "SGD")])
def test_optimizers_of_keras_that_were_not_saved_are_named(flavour: str, optimizer: str) -> None:
    """A custom loop over a Keras model with tf.train.Checkpoint, right and wrong."""
    assert _resumed(verify(looping(flavour, "", optimizer), "mirrored-2", interrupt_at=4)) == (4, 3)
    assert _rule(looping(flavour, "slots", optimizer), "mirrored-2", 4) == "slots_not_restored"


# What follows is about `fit` and BackupAndRestore, which scenarios/test_checkpoint_formats.py interrupts in the quick
# profile, right and wrong; each rule is shown above.


@pytest.mark.full
@pytest.mark.parametrize("flavour", ["keras", "tf_keras"])
def test_backup_and_restore_resumes_at_the_epoch(flavour: str) -> None:
    """`fit` killed in the third batch of the second epoch of four begins that epoch again."""
    verdict = verify(fitting(flavour), "mirrored-2", interrupt_at=7, resume_strategy="mirrored-4")
    assert _resumed(verdict) == (7, 4)
    assert _rule(fitting(flavour, "weights"), "mirrored-2", 7) == "slots_not_restored"


@pytest.mark.full
def test_a_backup_that_is_not_found_again_is_named() -> None:
    """A folder of its own for each process, which the resumed one does not look into."""
    assert _rule(fitting("keras", "scratch"), "mirrored-2", 7) == "restarted_from_scratch"


@pytest.mark.full
@pytest.mark.parametrize(
    ("strategy", "resume", "at", "step"),
    [("mirrored-2", "parameter_server-1w1p", 6, 6), ("parameter_server-1w1p", "mirrored-2", 2, 8)],
)
def test_fit_under_parameter_servers_is_interrupted_after_an_epoch(
    strategy: str, resume: str, at: int, step: int
) -> None:
    """There Keras records one step an epoch, which counts as the reference's last step of that epoch."""
    verdict = verify(fitting("tf_keras"), strategy, interrupt_at=at, resume_strategy=resume)
    assert _resumed(verdict) == (step, step // 4 * 4)


@pytest.mark.full
def test_a_backup_within_an_epoch_is_seen_to_repeat_batches() -> None:
    """Keras 3's BackupAndRestore with save_freq=2 restores step 6 and trains the epoch's first batches again."""
    assert _rule(fitting("keras", save_freq=2), "mirrored-2", 7) == "data_restarted"
