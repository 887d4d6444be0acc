"""A judge of watched trainings, as whoever runs it for weeks meets it: waiting, failing, damaged and full."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.deposit import JUDGED, DepositJob, ended, opened, trainings
from harness.evidence.digests import Digest, DigestWriter
from harness.evidence.steps import HeldVariable, StepEvidence, StepFileWriter
from harness.evidence.trace import Header
from harness.live import Judge, StepFinding, StepJudged, reasons
from harness.live.judged_file import JudgedFile
from simulator import RunFailed, RunResult, TaskError, TaskResult, UsageError
from tests.harness._called import lockstep, usage_error

_WRONG = StepFinding("state", "replicas_agree", "copies of w differ")
_TRACEBACK = "Traceback (most recent call last):\nRuntimeError: train.py ended itself with exit code 3"


def _job(**fields: Any) -> DepositJob:
    job = DepositJob(Header("local:0", 0, "mirrored-2", 2, 2, 1, 0), "", (), "/", "", {})
    return msgspec.structs.replace(job, **fields)


def _left(deposit: Path, *steps: int) -> Path:
    """The folder of a process that has left some steps and has come to its end."""
    writer = StepFileWriter(print)
    writer.folder, writer.room = opened(deposit, _job()), 1 << 20
    for index in steps:
        writer.begin(index)
        writer.publish(StepEvidence(index, (HeldVariable("w", 0, "copies", (writer.put(np.ones(3)),)),)))
        writer.close()
    ended(writer.folder)
    return writer.folder


def _noted(deposit: Path, *steps: StepJudged) -> None:
    (deposit / JUDGED).write_bytes(b"".join(msgspec.json.encode(step) + b"\n" for step in steps))


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a judge notes on stderr, in this order; of the time when it judges a mark is among them."""
    found: list[str] = []
    judge = Judge.judge

    def marked(self: Judge, **told: bool) -> Iterator[StepJudged]:
        found.append("judges")
        yield from judge(self, **told)

    monkeypatch.setattr(Judge, "judge", marked)
    monkeypatch.setattr("harness.cli.judge._note", found.append)
    return found


@pytest.fixture
def judging(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have judges find these steps, and note them, instead of computing."""

    def found(*steps: StepJudged) -> None:
        def judge(self: Judge, **_: bool) -> Iterator[StepJudged]:
            for step in steps:
                self._file.add(step)
                yield step

        monkeypatch.setattr(Judge, "judge", judge)

    return found


# ---------------------------------------------------------------------- waiting


@pytest.mark.parametrize("is_there", [False, True])
def test_who_follows_waits_for_a_job_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    """With one note, in a directory that has no job yet, and maybe is not there either."""
    deposit, notes, looks = tmp_path / "left", list[str](), list[bool]()
    if is_there:
        deposit.mkdir()

    def noted(text: str) -> None:
        notes.append(text)
        deposit.mkdir(exist_ok=True)

    def has_begun(self: Judge) -> bool:
        looks.append(bool(trainings(deposit)))
        if len(looks) == 2:
            _left(deposit)
        return looks[-1]

    monkeypatch.setattr("harness.cli.judge._note", noted)
    monkeypatch.setattr("harness.cli.judge._PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(Judge, "has_begun", property(has_begun))
    lockstep("judge", deposit, "--follow", code=5)
    assert looks == [False, False, True]
    assert notes[0] == f"no job has begun in {deposit} yet; this waits for one"
    assert "no step has left evidence" in notes[1]
    assert len(notes) == 2


def test_a_job_has_begun_when_a_process_has_been_there(tmp_path: Path) -> None:
    """Also one of which nobody knows any more what it was."""
    assert not Judge(tmp_path).has_begun
    folder = _left(tmp_path, 1)
    assert Judge(tmp_path).has_begun
    (folder / "job.json").unlink()
    assert Judge(tmp_path).has_begun


def test_who_does_not_follow_names_a_directory(tmp_path: Path) -> None:
    """One that is missing is a usage error, and it is not made."""
    assert usage_error("judge", tmp_path / "left").startswith(f"there is no directory {tmp_path / 'left'}")
    assert not (tmp_path / "left").exists()


def test_that_a_process_is_gone_is_said_at_once(
    tmp_path: Path, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its steps are judged, with how long the judge waits; later it is said why the judge ends."""
    monkeypatch.setattr(DepositJob, "is_gone", property(lambda self: True))
    monkeypatch.setattr("harness.cli.judge._GONE_SECONDS", 0.0)
    opened(tmp_path, _job(pid=7))
    lockstep("judge", tmp_path, "--follow", code=5)
    gone = "process 7, local:0, has ended before its end: this waits 0 s for somebody to start the job again"
    assert notes[:3] == [gone, "judges", "nobody has started the job again: nothing more comes"]


def test_what_only_digests_tell_of_a_job_that_is_gone_is_told(tmp_path: Path) -> None:
    """Who waits hears of it once a later step may tell more, or none comes: the job was started again, or is over."""
    folder = opened(tmp_path, _job())
    writer = DigestWriter(folder)
    for step, begin in ((1, (1, 1)), (2, (2, 3))):
        writer.write(Digest(step, 1, begin, ()))
    writer.flush()
    assert list(Judge(tmp_path).judge(waits=True)) == []
    opened(tmp_path, _job())
    (told,) = Judge(tmp_path).judge(waits=True)
    assert (told.training, [each.law for each in told.findings]) == (0, ["replicas_agree"])
    (tmp_path / JUDGED).unlink()
    assert list(Judge(tmp_path).judge()) == [told]


# ---------------------------------------------------------------------- steps that are tried again


def _failure(log: str = "") -> RunFailed:
    error = TaskError("local:0", "RuntimeError", "train.py ended itself with exit code 3", traceback=_TRACEBACK)
    task = TaskResult("local:0", None, error, 1, None, f"{log}{_TRACEBACK}\n", 0, 0, False)
    return RunFailed((error,), RunResult({"local:0": task}, 0.0, Path()))


def _consistent(*places: int) -> Any:
    """A verdict on steps of which variables were compared at these places."""
    law = SimpleNamespace(
        law="variables_match_reference", ratios=dict.fromkeys([(place, "w") for place in places], 0.5)
    )
    nothing = {"findings": (), "why_abstained": None, "nothing_compared": None}
    return SimpleNamespace(outcome="consistent", worst_ratio=0.5, conditions=(), judgements=(law,), **nothing)


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> list[RunFailed | None]:
    """What comes of each computation: it fails or is consistent, the last one of these for ever."""
    outcomes: list[RunFailed | None] = []

    def computed(*of: object) -> Any:
        failure = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if failure is not None:
            raise failure
        return _consistent(1, 2), ()

    monkeypatch.setattr(Judge, "_computed", computed)
    return outcomes


def test_a_step_whose_run_failed_is_tried_again_by_a_later_call(
    tmp_path: Path, computing: list[RunFailed | None]
) -> None:
    """Once by each; of its lines the last one counts, and exit code 3 becomes 0."""
    _left(tmp_path, 1, 10)
    computing.append(_failure("no licence\n"))
    judge = Judge(tmp_path)
    assert [(each.step, each.failed) for each in judge.judge()] == [(1, "run"), (10, "run")]
    assert list(judge.judge()) == []
    assert lockstep("judge", tmp_path, code=3).stdout.endswith("2 steps: 0 consistent, 0 inconsistent, 2 not judged\n")
    computing[:] = [None]
    assert "2 steps: 2 consistent" in lockstep("judge", tmp_path).stdout
    assert [(each.step, each.outcome) for each in judge.judged] == [(1, "consistent"), (10, "consistent")]
    assert len((tmp_path / JUDGED).read_bytes().splitlines()) == 6
    computing[:] = [_failure()]
    assert lockstep("judge", tmp_path).stdout.startswith("2 steps: 2 consistent")


def test_a_step_that_left_nothing_to_compare_is_not_judged_by_those_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them are judged together, and what is consistent of some says nothing of it."""
    _left(tmp_path, 1, 10)
    monkeypatch.setattr(Judge, "_computed", lambda *of: (_consistent(1), ()))
    first, second = Judge(tmp_path).judge()
    assert (first.outcome, second.outcome, second.why) == ("consistent", "abstained", reasons.NOTHING_LEFT)


def test_why_a_run_failed_is_said(tmp_path: Path, computing: list[RunFailed | None]) -> None:
    """By its exception, and by what it wrote before that."""
    _left(tmp_path, 1)
    computing.append(_failure("10 rows\nno licence\n"))
    (line, _) = lockstep("judge", tmp_path, code=3).stdout.splitlines()
    assert "RuntimeError: train.py ended itself with exit code 3; before that it wrote: no licence" in line
    assert _failure().last_line == ""


def test_of_some_steps_that_fail_those_that_do_not_are_judged(
    tmp_path: Path, computing: list[RunFailed | None]
) -> None:
    """The failure of all together is none of each by itself."""
    _left(tmp_path, 1, 10)
    computing.extend([_failure(), None, _failure()])
    assert [(each.step, each.failed) for each in Judge(tmp_path).judge()] == [(1, None), (10, "run")]


def test_what_is_inconsistent_counts_more_than_a_failure(tmp_path: Path, computing: list[RunFailed | None]) -> None:
    """Exit code 1, and not 3."""
    _left(tmp_path, 1)
    _noted(tmp_path, StepJudged(0, 9, "inconsistent", findings=(_WRONG,)))
    computing.append(_failure())
    lockstep("judge", tmp_path, code=1)


def test_a_step_whose_file_was_damaged_is_tried_again(tmp_path: Path, computing: list[RunFailed | None]) -> None:
    """As when it is copied once more; as long as it is damaged nothing was judged."""
    path = _left(tmp_path, 1) / "1.step"
    computing.append(None)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes(9))
    lockstep("judge", tmp_path, code=5)
    (step,) = Judge(tmp_path).judged
    assert step.failed == "files"
    path.write_bytes(whole)
    lockstep("judge", tmp_path)


# ---------------------------------------------------------------------- one judge, and where it writes


def test_a_second_judge_is_refused(tmp_path: Path) -> None:
    """While the first one is at work, and no longer."""
    with JudgedFile(tmp_path).alone():
        assert "another `lockstep judge` is at work" in usage_error("judge", tmp_path)
    lockstep("judge", tmp_path, code=5)


def test_a_judge_that_is_killed_leaves_no_lock(tmp_path: Path) -> None:
    """The system takes it from its process."""
    code = """import sys
from pathlib import Path
from harness.live.judged_file import JudgedFile
with JudgedFile(Path(sys.argv[1])).alone():
    print("held", flush=True)
    input()
"""
    told = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, **told) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "held\n"
        assert "another `lockstep judge`" in usage_error("judge", tmp_path)
        process.kill()
    lockstep("judge", tmp_path, code=5)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_where_there_are_no_locks_a_judge_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """And leaves nothing by which another one could be refused."""

    def none(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", none)
    with JudgedFile(tmp_path).alone(), JudgedFile(tmp_path).alone():
        assert number != errno.ENOSYS or not (tmp_path / "judge.lock").exists()  # which would be the lock itself
    lockstep("judge", tmp_path, code=5)


def test_a_directory_that_cannot_be_written_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notes: list[str]
) -> None:
    """Before anything is judged, with what to do."""

    def full(**_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("harness.live.judged_file.tempfile.TemporaryFile", full)
    said = usage_error("judge", tmp_path)
    assert said.startswith(f"{tmp_path / JUDGED} cannot be written: Read-only file system; free space there, copy")
    assert "TMPDIR" not in said
    assert notes == []


def test_a_line_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """As of a disk that is full by then."""
    with pytest.raises(UsageError, match=r"judged\.jsonl cannot be written: No such file"):
        JudgedFile(tmp_path / "gone").add(StepJudged(0, 1, "consistent"))


# ---------------------------------------------------------------------- --on-finding


def _command(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("given", ["no-such-command --now", "./page-me.sh", "", "'"])
def test_a_command_that_cannot_be_run_is_a_usage_error(here: Path, notes: list[str], given: str) -> None:
    """Before anything is judged."""
    Path("page-me.sh").write_text("#!/bin/sh\n")  # which may not be executed
    assert usage_error("judge", here, "--on-finding", given).startswith(f"--on-finding {given!r}")
    assert notes == []


@pytest.mark.parametrize(
    ("script", "said"),
    [("#!/bin/sh\ncat\nexit 7\n", "ended with exit code 7 for step 4"), ("no script", "was not run for step 4: ")],
)
def test_a_command_that_fails_costs_a_note(
    here: Path, judging: Callable[..., None], capfd: pytest.CaptureFixture[str], script: str, said: str
) -> None:
    """What it writes is not among the lines for machines."""
    command = _command(here / "page-me.sh", script)
    judging(StepJudged(0, 4, "inconsistent", findings=(_WRONG,)), StepJudged(0, 8, "consistent"))
    found = lockstep("judge", here, "--json", "--on-finding", command, code=1)
    assert [json.loads(line)["step"] for line in found.stdout.splitlines()] == [4, 8]
    assert f"note: {command} {said}" in found.stderr
    if "cat" in script:
        assert '"step":4' in capfd.readouterr().err


# ---------------------------------------------------------------------- files that are damaged


@pytest.mark.parametrize("damaged", [b"{", b"null", b'{"header": "\xff"}', None])
def test_what_does_not_say_whose_steps_are_beside_it_is_noted(
    tmp_path: Path, computing: list[RunFailed | None], damaged: bytes | None
) -> None:
    """The rest is judged."""
    computing.append(None)
    folder = _left(tmp_path, 1)
    _left(tmp_path, 1, 10)
    (tmp_path / "of.others").mkdir()
    if damaged is None:
        (folder / "job.json").unlink()
    else:
        (folder / "job.json").write_bytes(damaged)
    found = lockstep("judge", tmp_path)
    assert f"note: {folder / 'job.json'} is missing or damaged: the steps beside it are not judged" in found.stderr
    assert found.stdout.startswith("2 steps: 2 consistent")
    assert [training.number for training in trainings(tmp_path)] == [1]


# ---------------------------------------------------------------------- what is told


def test_a_later_call_tells_what_earlier_ones_have_found(tmp_path: Path) -> None:
    """So that exit code 1 comes with its lines; `--json` has only what this call has judged."""
    _noted(tmp_path, StepJudged(0, 3, "consistent", 0.5), StepJudged(0, 6, "inconsistent", 2.0, (_WRONG,)))
    lines = lockstep("judge", tmp_path, code=1).stdout.splitlines()
    assert lines[0] == "step 6: state: copies of w differ [replicas_agree]"
    assert len(lines) == 2
    assert lockstep("judge", tmp_path, "--json", code=1).stdout == ""


def test_what_digests_tell_of_a_step_is_known_by_its_law(tmp_path: Path) -> None:
    """A restart may have lost something, and give all replicas the same examples from its first step on."""
    same = StepFinding("data", "examples_in_turn", "worker:0 and worker:1 are given the same examples")
    told = [StepJudged(1, 1, "inconsistent", findings=(each,), by_digest=True) for each in (_WRONG, same)]
    computed = StepJudged(1, 1, "consistent")
    _noted(tmp_path, *told, computed, told[0])
    assert Judge(tmp_path).judged == [*told, computed]


def test_the_summary_counts_what_digests_tell(tmp_path: Path) -> None:
    """Else it would say that nothing is wrong where exit code 1 does."""
    _noted(tmp_path, StepJudged(0, 3, "consistent", 0.5))
    assert (
        lockstep("judge", tmp_path).stdout == "1 steps: 1 consistent, 0 inconsistent, 0 not judged; worst ratio 0.5\n"
    )
    wrong = StepJudged(0, 2, "inconsistent", findings=(_WRONG,), by_digest=True)
    _noted(tmp_path, StepJudged(0, 3, "consistent", 0.5), wrong)
    summary = lockstep("judge", tmp_path, code=1).stdout.splitlines()[-1]
    assert summary == "1 steps: 1 consistent, 0 inconsistent, 0 not judged; 1 finding between them; worst ratio 0.5"


def test_what_is_taken_as_given_is_told_once(tmp_path: Path) -> None:
    """As of draws that Keras has alike on all replicas."""
    given = ("that Keras draws the same numbers: train.py:3",)
    _noted(tmp_path, *(StepJudged(0, step, "consistent", 0.5, given=given) for step in (3, 6)))
    told, _ = lockstep("judge", tmp_path).stdout.splitlines()
    assert told == f"given {given[0]}"


@pytest.mark.parametrize(("lost", "lines"), [(3, 3), (4, 4), (12, 4)])
def test_many_findings_between_steps_are_few_lines(tmp_path: Path, lost: int, lines: int) -> None:
    """A restart may lose each slot of an optimizer."""
    findings = tuple(StepFinding("state", "restarts", f"slot {number} is lost") for number in range(lost))
    _noted(tmp_path, StepJudged(1, 1, "inconsistent", findings=findings, by_digest=True))
    *said, summary = lockstep("judge", tmp_path, code=1).stdout.splitlines()
    assert len(said) == lines
    assert ("and 9 more such findings" in said[-1]) == (lost == 12)
    assert f"{lost} findings between them" in summary


def test_scalars_that_are_asked_for_later_have_earlier_steps(tmp_path: Path) -> None:
    """Where none has been written; later calls do not write them again."""
    _noted(tmp_path, StepJudged(0, 3, "consistent", 0.5), StepJudged(1, 6, "consistent", 0.5))
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "events.out.tfevents.1.the-training").touch()
    lockstep("judge", tmp_path, "--tensorboard", logs)
    written = {path: path.read_bytes() for path in sorted(logs.rglob("*.lockstep"))}
    assert [path.parent.name for path in written] == ["logs", "start-2"]
    lockstep("judge", tmp_path, "--tensorboard", logs)
    assert {path: path.read_bytes() for path in sorted(logs.rglob("*.lockstep"))} == written


def test_a_command_stands_after_the_dashes(tmp_path: Path) -> None:
    """What else stands there is no command."""
    said = usage_error("judge", tmp_path, "extraword")
    assert "'extraword' is not Python" in said
    assert said.endswith("it stands after --, as in lockstep judge DIR -- python train.py")
    assert "verif" not in said


def test_nothing_to_watch_is_said_with_an_example(tmp_path: Path) -> None:
    """Instead of a command that is empty."""
    said = usage_error("watch", "--out", tmp_path)
    assert (
        said == "there is no command; write it after --, for example: lockstep watch --out evidence -- python train.py"
    )
    assert "verif" not in usage_error("watch", "--out", tmp_path, "--", "ls")
