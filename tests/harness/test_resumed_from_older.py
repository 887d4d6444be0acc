"""Law and rule `resumed_from_older`: saved work that was there and not used, as journals tell it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.evidence.saves import Process, last_journal, note_saves, read_saves
from harness.judging.explain import explain
from harness.judging.judge import judge_parts
from harness.judging.laws._older_saves import OlderRestore, older_restores
from harness.judging.laws.protocol import Case
from harness.judging.laws.resumed_from_older import LAW
from tests._present import present
from tests.harness._journals import Script
from tests.harness._resumable import training
from tests.harness.test_incarnations import REFERENCE, STEPS, _part
from tests.harness.test_interrupt_rules import _case

FIRST: Process = (0, "local:0", 0)
AGAIN: Process = (1, "local:0", 0)


class _Run:
    """Clusters that save and restore in a directory; every file that is written stays, but those that are `gone`."""

    def __init__(self, tmp_path: Path) -> None:
        self.kept = tmp_path / "kept"
        self.scripts = [Script("local:0"), Script("local:0", origin=2000.0)]
        self.gone: tuple[str, ...] = ()

    def saves(self, at: float, step: int, name: str = "", cluster: int = 0, task: str = "local:0", **more: Any) -> None:
        path = str(self.kept / (name or f"ckpt-{step}"))
        self.scripts[cluster].saved(at, task, path, step=step, **more)

    def restores(self, name: str, at: float = 1.0, cluster: int = 1, task: str = "local:0", **more: Any) -> None:
        self.saves(at, 0, name, cluster, task, restores=True, **more)

    def found(self, tmp_path: Path) -> tuple[int, list[OlderRestore]]:
        journals = [script.save(tmp_path / str(k)) / "journal.jsonl" for k, script in enumerate(self.scripts)]
        note_saves(tmp_path, self.kept, *journals)
        read = present(read_saves(tmp_path, {}))
        names = {f"{event.path}.index" for event in read.events if not event.restores and event.path not in self.gone}
        return older_restores(replace(read, files={event.process: tuple(sorted(names)) for event in read.events}))


@pytest.fixture
def run(tmp_path: Path) -> _Run:
    """A training that saves every step until 4 and is killed after step 5."""
    made = _Run(tmp_path)
    for step in range(1, 5):
        made.saves(float(step), step)
    return made


def test_an_older_save_is_lost_work(run: _Run, tmp_path: Path) -> None:
    """What was restored and what was there are named, and the steps between."""
    run.restores("ckpt-2")
    assert run.found(tmp_path) == (1, [OlderRestore(("local:0",), "ckpt-2", 2, "ckpt-4", 4)])


def _failed(run: _Run) -> None:
    run.saves(5.0, 5, failed="OSError")
    run.restores("ckpt-4")


def _cut_off(run: _Run) -> None:
    run.saves(5.0, 5, unfinished=True)
    run.restores("ckpt-4")


def _tried(run: _Run) -> None:
    run.restores("ckpt-4", failed="DataLossError")
    run.restores("ckpt-3", at=2.0)


def _both(run: _Run) -> None:
    """First the best, for its weights, and then the newest."""
    run.restores("ckpt-1")
    run.restores("ckpt-4", at=2.0)


def _removed(run: _Run) -> None:
    """By the program itself, which is meant to go back."""
    run.gone = ("ckpt-3", "ckpt-4")
    run.restores("ckpt-2")


def _another_series(run: _Run) -> None:
    """Exports of every step, and weights elsewhere, are no state to resume from."""
    run.saves(5.0, 5, "export/5")
    run.saves(5.5, 5, "best")
    run.restores("ckpt-4")


def _same_path(run: _Run) -> None:
    """BackupAndRestore writes one file again and again."""
    for step in (2, 4):
        run.saves(5.0 + step, step, "latest.weights.h5")
    run.restores("latest.weights.h5")


def _in_the_background(run: _Run) -> None:
    """The thread has written step 5 to its end, and perhaps not yet the file that names it."""
    for step in (4, 5):
        run.saves(10.0 + step, step, f"async-{step}", asynchronous="call")
        run.saves(10.5 + step, step + 1, f"async-{step}", asynchronous="thread")
    run.restores("async-4")


def _damaged(run: _Run) -> None:
    run.scripts[0].add(6.0, "fired", fault="torn", kind="torn_checkpoint", tasks=[], trigger="step", effect={})
    run.restores("ckpt-3")


def _two_series(run: _Run) -> None:
    """The position of the input is saved every second step, and both are restored as of one step."""
    for step in (2, 4):
        run.saves(5.0 + step, step, f"input-{step}")
    run.saves(10.0, 5)
    run.restores("ckpt-4")
    run.restores("input-4", at=2.0)


def _a_series_of_each_task(run: _Run) -> None:
    """Worker 1 was killed while it saved step 4."""
    run.saves(4.0, 3, "other-3", task="local:1")
    run.saves(5.0, 4, "other-4", task="local:1", unfinished=True)
    run.restores("ckpt-3")
    run.restores("other-3", task="local:1")


def _newest(run: _Run) -> None:
    run.restores("ckpt-4")


@pytest.mark.parametrize(
    "right",
    [
        _newest,
        _failed,
        _cut_off,
        _tried,
        _both,
        _removed,
        _another_series,
        _same_path,
        _in_the_background,
        _damaged,
        _two_series,
        _a_series_of_each_task,
    ],
)
def test_a_run_that_could_do_no_better_is_right(right: Callable[[_Run], None], run: _Run, tmp_path: Path) -> None:
    """Judged, and nothing found; in the journals of all of them something newer is on record, or the newest is used."""
    right(run)
    assert run.found(tmp_path) == (1, [])


def test_what_was_written_before_the_last_in_the_background_counts(run: _Run, tmp_path: Path) -> None:
    """Its step is that of the call that copied the variables, not that at which a thread began to write."""
    for step in (4, 5, 6):
        run.saves(10.0 + step, step, f"async-{step}", asynchronous="call")
        run.saves(10.5 + step, step + 1, f"async-{step}", asynchronous="thread")
    run.restores("async-4")
    assert run.found(tmp_path) == (1, [OlderRestore(("local:0",), "async-4", 4, "async-5", 5)])


def test_a_restore_of_something_else_is_not_judged(run: _Run, tmp_path: Path) -> None:
    """A file made by hand, or weights from outside of record.directory, say nothing of what was lost."""
    run.restores("copied")
    assert run.found(tmp_path) == (0, [])
    run.scripts[1] = Script("local:0").saved(1.0, "local:0", "/elsewhere/ckpt-1", restores=True)
    assert run.found(tmp_path) == (0, [])


@pytest.mark.parametrize(("restored", "lost"), [("ckpt-7", []), ("ckpt-4", [("ckpt-4", 4, "ckpt-7", 7)])])
def test_steps_count_on_where_a_process_was_resumed(
    restored: str, lost: list[tuple[str, int, str, int]], run: _Run, tmp_path: Path
) -> None:
    """Under faults every incarnation counts from 1: the second one's third step is the seventh."""
    script = run.scripts[0]
    for incarnation, at in ((1, 20.0), (2, 30.0)):
        script.add(at, "restart", task="local:0", incarnation=incarnation, reason="policy")
    run.restores("ckpt-4", 21.0, 0, incarnation=1)
    run.saves(22.0, 1, "ckpt-5", incarnation=1)
    run.saves(23.0, 3, "ckpt-7", incarnation=1)
    run.restores(restored, 31.0, 0, incarnation=2)
    judged, found = run.found(tmp_path)
    assert (judged, [(each.restored, each.step, each.newer, each.newer_step) for each in found]) == (2, lost)


def test_a_save_that_others_make_meanwhile_is_none_that_was_there(run: _Run, tmp_path: Path) -> None:
    """A worker comes back alone, and the chief saves while it looks for the newest."""
    run.scripts[0].add(4.5, "restart", task="local:1", incarnation=1, reason="restart=")
    run.saves(4.55, 5, "ckpt-5")
    run.restores("ckpt-4", 4.7, 0, task="local:1", incarnation=1)
    assert run.found(tmp_path) == (1, [])


def test_the_law_is_asked_of_runs_that_resumed(run: _Run, tmp_path: Path) -> None:
    """Finding, verdict's numbers and explanation; without a restore on record it is not judged."""
    run.restores("ckpt-2")
    run.found(tmp_path)
    files = {AGAIN: tuple(f"ckpt-{step}.index" for step in range(1, 5))}
    resumed = _case()
    case = replace(resumed, saves=read_saves(tmp_path, files))
    assert LAW.concerns(case)
    assert not LAW.concerns(Case(case.run, case.reference, case.tolerance))
    (finding,) = LAW.judge(case).findings
    assert (finding.step, finding.observed, finding.expected) == (3, 2, 4)
    assert "'ckpt-4', saved after step 4, was complete when the job was started again: steps 3 to 4 were lost" in (
        finding.text
    )
    found = present(explain(case))
    assert found.rule == "resumed_from_older"
    assert "sorted as text" in found.text
    wrong = present(explain(replace(_case("slots"), saves=case.saves)))
    assert wrong.rule == "slots_not_restored"
    assert LAW.judge(resumed).status == "not_judged"


def test_nothing_is_noted_of_an_undisturbed_run(tmp_path: Path) -> None:
    """Nor by an earlier Lockstep; the last of several starts of a cluster is the one that counts."""
    assert read_saves(tmp_path, {}) is None
    for name in ("2", "10"):
        Script("local:0").save(tmp_path / name)
    assert last_journal(tmp_path).parent.name == "10"
    judged = judge_parts_of([range(1, 6), range(5, STEPS + 1)])
    assert {found.status for found in judged if found.law == LAW.id} == {"not_judged"}


def judge_parts_of(parts: list[range]) -> tuple[Any, ...]:
    """What the laws say of a run without evidence of its saves."""
    from harness.evidence.parts import Parts

    *earlier, last = map(_part, parts)
    return judge_parts(Parts(last.trace, tuple(earlier)), REFERENCE).judgements


@pytest.mark.full
def test_a_real_run_is_judged_by_what_it_saved() -> None:
    """Saved after every step, killed after step 5, resumed from the newest but one; no number is wrong."""
    verdict = verify(training("older", every=1), "mirrored-2", interrupt_at=5)
    assert {judgement.law for judgement in verdict.judgements if judgement.status == "broken"} == {LAW.id}
    assert verdict.explanation is not None
    assert "'checkpoints/ckpt-3', saved after step 3, although 'checkpoints/ckpt-4'" in verdict.explanation.text
