"""`verify(interrupt_at=, resume_strategy=)`: usage, saved runs, the command line, and runs that fail."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.saved_run import load_run
from harness.verify import judge
from simulator import RunFailed, UsageError
from tests.harness._called import json_of, lockstep, usage_error
from tests.harness._counting import train
from tests.harness._programs import hanging, worker_that

__all__ = ["train"]


def counting(strategy: Any, record: Any, *, fault: str = "") -> None:
    """Five steps whose number is kept in a file, with a fault of the resumed process or of the interrupted one."""
    file = record.directory / "steps"
    done = int(file.read_text()) if file.exists() else 0
    if fault == "crash_at_resume" and done:
        raise ArithmeticError("cannot go on")
    last = 3 if fault == "short" and strategy.num_replicas_in_sync > 1 else 5
    strategy.run(lambda: None)
    for step in range(done, last):
        record.step(loss=float(step))
        file.write_text(str(step + 1))


@pytest.mark.parametrize("at", [0, -1, 1.5, True, "2"])
def test_a_step_counts_from_1(at: Any) -> None:
    """Anything else is a usage error before anything runs."""
    with pytest.raises(UsageError, match="steps count from 1"):
        verify(counting, "mirrored-2", interrupt_at=at)


def test_a_strategy_to_resume_under_needs_an_interruption() -> None:
    """And it has to be a strategy."""
    with pytest.raises(UsageError, match="interrupt_at"):
        verify(counting, "mirrored-2", resume_strategy="mirrored-4")
    with pytest.raises(UsageError, match="mirrored_4"):
        verify(counting, "mirrored-2", interrupt_at=2, resume_strategy="mirrored_4")


def test_a_step_beyond_the_end_is_a_usage_error() -> None:
    """It says how many steps the program has."""
    with pytest.raises(UsageError, match=r"never recorded step 6, .* local:0 recorded 5$"):
        verify(counting, "mirrored-2", interrupt_at=6)


def test_a_run_that_ends_before_the_step_is_a_usage_error() -> None:
    """The reference has the step, the program under this strategy does not."""
    with pytest.raises(UsageError, match=r"never recorded step 4.*local:0 recorded 3"):
        verify(partial(counting, fault="short"), "mirrored-2", interrupt_at=4)


def test_a_crash_before_the_step_fails_the_run() -> None:
    """As without an interruption, the failing task is named."""
    with pytest.raises(RunFailed, match="worker:1 failed first: ArithmeticError"):
        verify(_crashing_early, "multi_worker-2", interrupt_at=2)


def _crashing_early(strategy: Any, record: Any) -> None:
    worker_that("raises")(strategy, record)
    record.step(loss=3.0)


@pytest.mark.full
def test_a_hang_before_the_step_fails_the_run_with_stacks() -> None:
    """The wait for the step ends with the timeout, and the task's stacks are shown."""
    with pytest.raises(RunFailed, match=r"Hang: did not finish within 6 s.*step 1") as failure:
        verify(_hanging_early, "mirrored-2", interrupt_at=2, timeout=6)
    assert "wait_for_godot" in str(failure.value)


def _hanging_early(strategy: Any, record: Any) -> None:
    hanging(strategy, record)
    record.step(loss=2.0)


@pytest.mark.full
def test_a_crash_of_the_resumed_run_fails_the_run() -> None:
    """The kill was asked for; what goes wrong afterwards was not."""
    with pytest.raises(RunFailed, match="cannot go on"):
        verify(partial(counting, fault="crash_at_resume"), "mirrored-2", interrupt_at=2)


def test_a_saved_run_is_judged_again(tmp_path: Path, train: str) -> None:
    """Verdict and report agree, which says where it was interrupted and resumed, and exits with 1.

    A later run without interruption into the same directory is not taken for one.
    """
    program = f"{train}:forgetful"
    verdict = verify(program, "mirrored-2", interrupt_at=3, resume_strategy="mirrored-4", out=tmp_path / "out")
    assert not verdict
    parts, reference, saved = load_run(tmp_path / "out")
    again = judge(parts, reference, program=saved["program"], tasks=saved["tasks"], seconds=saved["seconds"])
    assert str(again) == str(verdict)
    assert saved["interrupted"] == {"at": 3, "resumed_at": 0, "resume_strategy": "mirrored-4"}
    report = lockstep("report", tmp_path / "out", code=1)
    assert "restarted_from_scratch" in report.output
    output = " ".join(report.output.split())
    assert "interrupted after step 3, resumed under mirrored-4 at step 0, so that 3 steps were done" in output
    assert (tmp_path / "out" / "interrupted" / "run" / "0" / "journal.jsonl").exists()
    assert verify(program, "mirrored-2", out=tmp_path / "out").interrupted is None
    assert load_run(tmp_path / "out")[0].earlier == ()


def test_the_command_interrupts_each_strategy(train: str) -> None:
    """`--json` says where each was interrupted and resumed."""
    arguments = ("--strategy", "default", "--strategy", "mirrored-2", "--interrupt-at", "3", "--exact")
    every = json_of("verify", f"{train}:train", *arguments)
    for found, name in zip(every, ("default", "mirrored-2"), strict=True):
        assert (found["strategy"], found["consistent"]) == (name, True)
        assert found["interrupted"] == {"at": 3, "resumed_at": 2, "resume_strategy": name}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--resume-strategy", "mirrored-4"), "--interrupt-at"),
        (("--interrupt-at", "0"), "0 is not in the range"),
        (("--interrupt-at", "2", "--resume-strategy", "nonsense"), "nonsense"),
    ],
)
def test_wrong_options_are_usage_errors(options: tuple[str, ...], said: str, train: str) -> None:
    """Exit code 2 and what is wrong."""
    assert said in usage_error("verify", f"{train}:train", *options)
