"""What users name for results: only Lockstep's own is removed there, and what is in the way is named before a run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.run_directory import VERDICT, opened_run
from harness.search import PlanOutcome, survives, write_test
from simulator import Cluster, FaultPlan, LockstepError, Topology, UsageError
from simulator.out import MARKER, NotKept, OutDirectory
from tests.harness._called import lockstep, usage_error

OURS = ("traces", "reference", "interrupted", "kept", "run", "0")


def _train(strategy: Any, record: Any) -> None:
    raise AssertionError("nothing may start")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory of the user's, with names that Lockstep uses as well."""
    for name in OURS:
        (tmp_path / "project" / name).mkdir(parents=True)
        (tmp_path / "project" / name / "notes.txt").write_text("mine")
    (tmp_path / "project" / "train.py").write_text("def train(strategy, record): raise SystemExit('it has started')")
    return tmp_path / "project"


def _files(directory: Path) -> dict[str, str]:
    return {str(path.relative_to(directory)): path.read_text() for path in directory.rglob("*") if path.is_file()}


def test_verify_refuses_a_directory_that_holds_something_else(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is named by a dot; nothing has started, and nothing is lost."""
    before = _files(project)
    monkeypatch.chdir(project)
    for out in (".", str(project)):
        with pytest.raises(UsageError, match=r"has not written \(0, interrupted, kept and 4 more\)"):
            verify(_train, "default", out=out)
    with pytest.raises(UsageError, match="name a directory that is empty or does not exist"):
        survives(_train, "default", FaultPlan(), out=".")
    with pytest.raises(UsageError, match="holds what Lockstep has not written"):
        Cluster(Topology(worker=1), out=project)
    assert _files(project) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "{0}/train.py:train", "--out", "{0}"),
        ("run", "--worker", "1", "--out", "{0}", "--", "true"),
        ("run", "--worker", "1", "--out", "{0}/train.py", "--", "true"),
        ("run", "--worker", "1", "--out", "{0}/train.py/x", "--", "true"),
        ("run", "--worker", "1", "--out", "/proc/out", "--", "true"),
        ("search", "{0}/train.py:train", "--out", "{0}/train.py/x"),
    ],
)
def test_commands_refuse_it_before_anything_starts(project: Path, arguments: tuple[str, ...]) -> None:
    """Exit code 2 and one sentence; a file is no directory either."""
    before = _files(project)
    said = usage_error(*(word.format(project) for word in arguments))
    assert "--out" in said
    assert "it has started" not in said
    assert _files(project) == before


def test_a_folder_of_a_strategy_that_is_not_ours_is_refused(project: Path, tmp_path: Path) -> None:
    """`lockstep verify --out` has one for each strategy, and asks of each before the first of them runs."""
    (tmp_path / "out" / "mirrored-2").mkdir(parents=True)
    (tmp_path / "out" / "mirrored-2" / "notes.txt").write_text("mine")
    OutDirectory(tmp_path / "empty").make()
    (tmp_path / "empty" / "default").mkdir()
    (tmp_path / "empty" / "default" / "notes.txt").write_text("mine")
    for place in ("out", "empty"):
        options = ("--out", tmp_path / place, "--strategy", "default", "--strategy", "mirrored-2")
        said = usage_error("verify", f"{project}/train.py:train", *options)
        assert "holds what Lockstep has not written" in said
        assert len(_files(tmp_path / place)) - (place == "empty") == 1


def test_half_a_step_does_not_stay(tmp_path: Path) -> None:
    """A process leaves one that is killed while it writes it, also where the command is interrupted."""
    steps = tmp_path / "out" / "interrupted" / "traces" / "local-0.steps"

    def interrupted() -> None:
        with opened_run(tmp_path / "out"):
            steps.mkdir(parents=True)
            for name in ("1.step", "2.part"):
                (steps / name).touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in steps.iterdir()] == ["1.step"]


def test_an_earlier_run_is_replaced_and_files_beside_it_stay(tmp_path: Path) -> None:
    """What the marker lists goes; what the user has put there since does not."""
    place = tmp_path / "out"
    for number in range(2):
        with opened_run(place):
            assert not (place / "traces").exists()
            (place / "traces").mkdir()
            (place / "traces" / f"{number}.trace").touch()
        (place / "notes.txt").write_text("mine")
    assert sorted(_files(place)) == [MARKER, "notes.txt", "traces/1.trace"]


def test_what_came_into_a_directory_of_ours_later_is_in_the_way(tmp_path: Path) -> None:
    """Under a name that no run had there, and as a link to somewhere else."""
    place = OutDirectory(tmp_path / "out")
    place.make()
    (place.path / "0").mkdir()
    with pytest.raises(UsageError, match="is in the way, and Lockstep has not written it"):
        place.renew("0")
    place.renew("1")
    (tmp_path / "elsewhere").mkdir()
    (place.path / "1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="is in the way"):
        place.renew("1")
    assert (tmp_path / "elsewhere").is_dir()


def test_runs_of_a_version_without_a_marker_are_recognised(tmp_path: Path) -> None:
    """By what is there and nothing else; a journal alone among other things is not enough."""
    old = tmp_path / "old"
    (old / "0").mkdir(parents=True)
    (old / "0" / "journal.jsonl").touch()
    (old / "run.json").touch()
    (old / "plan.toml").touch()
    OutDirectory(old).make()
    verified = tmp_path / "verified"
    (verified / "run" / "0").mkdir(parents=True)
    (verified / "run" / "0" / "journal.jsonl").touch()
    (verified / "traces").mkdir()
    with opened_run(verified) as place:
        assert list(place.iterdir()) == [place / MARKER]
    (tmp_path / "mixed" / "0").mkdir(parents=True)
    (tmp_path / "mixed" / "0" / "journal.jsonl").touch()
    (tmp_path / "mixed" / "thesis.tex").touch()
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        OutDirectory(tmp_path / "mixed").check()


def test_a_marker_that_is_broken_makes_nothing_ours(tmp_path: Path) -> None:
    """Then all that is there is in the way."""
    (tmp_path / MARKER).write_text("{")
    (tmp_path / "0").mkdir()
    with pytest.raises(UsageError, match="is in the way"):
        OutDirectory(tmp_path).renew("0")


def test_a_cluster_replaces_its_own_runs(tmp_path: Path) -> None:
    """A second cluster with the same directory begins again at 0."""
    for text in ("one", "two"):
        with Cluster(Topology(worker=1), preload=(), out=tmp_path / "out") as cluster:
            cluster.run(print, text)
    assert (tmp_path / "out" / "0" / "logs" / "worker-0.log").read_text() == "two\n"


def test_what_cannot_be_kept_is_said_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a full disk: of a run of a cluster, and of one that is judged."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "out" / "0"))

    with (
        pytest.raises(NotKept, match="No space left on device; free space, or name another"),
        opened_run(tmp_path / "out"),
    ):
        full()
    monkeypatch.setattr("simulator.cluster.Path.symlink_to", full)
    with (
        pytest.raises(LockstepError, match=r"cannot be kept in .*: No space left on device"),
        Cluster(Topology(worker=1), preload=(), out=tmp_path / "other") as cluster,
    ):
        cluster.run(int)


def test_a_written_test_never_replaces_another(tmp_path: Path) -> None:
    """Also when one of several was removed in between."""
    plan = FaultPlan.from_mapping({"fault": [{"kind": "kill", "task": "local:0", "step": 3}]})

    def write() -> str:
        return write_test(tmp_path, "train.py:train", "default", plan, PlanOutcome("numbers"), {}).name

    first, second = write(), write()
    (tmp_path / first).unlink()
    (tmp_path / second).write_text("mine")
    assert {write(), write()} == {first, "test_found_train_default_3.py"}
    assert (tmp_path / second).read_text() == "mine"


def test_pages_are_written_over_pages_only(tmp_path: Path) -> None:
    """`report --html` replaces what it has written itself, and nothing else; the matrix has to be ours, too."""
    (tmp_path / "matrix.json").write_text('{"cells": [{"row": "test_a", "strategy": "default", "outcome": "ok"}]}')
    (tmp_path / "train.py").write_text("import tensorflow")
    for _ in range(2):
        lockstep("report", tmp_path, "--html", tmp_path / "page.html")
    for name in ("train.py", "matrix.json"):
        assert "Lockstep has not written it" in usage_error("report", tmp_path, "--html", tmp_path / name)
    assert (tmp_path / "train.py").read_text() == "import tensorflow"


def test_a_directory_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A usage error before anything starts; root may write everywhere, so the answer is made up."""
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(UsageError, match="cannot be written to"):
        Cluster(Topology(worker=1), out=tmp_path)
    with pytest.raises(UsageError, match="cannot be made: No such file"):
        OutDirectory("/proc/out").make()


def test_a_run_in_the_directory_of_another_kind_of_run_is_refused(tmp_path: Path) -> None:
    """`lockstep run` does not remove what `verify` has left, nor the other way round."""
    program = [sys.executable, "-c", "pass"]
    lockstep("run", "--quiet", "--worker", "1", "--out", tmp_path / "out", "--", *program)
    with opened_run(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "run.json").exists()


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    """A second run at the same time would remove what the first one has written; afterwards it may."""
    out = tmp_path / "out"
    with opened_run(out):
        with pytest.raises(UsageError, match="is in use by another run of Lockstep"), opened_run(out):
            pass
        assert (out / ".lockstep.json").exists()
    with opened_run(out) as directory:
        assert directory == out


def test_a_directory_stays_where_it_is_when_the_working_directory_changes(here: Path) -> None:
    """A program that changes it would otherwise save somewhere else than it restores from."""
    with opened_run("out") as directory:
        assert directory == here / "out"


def test_a_run_that_is_refused_leaves_what_the_other_one_has(tmp_path: Path) -> None:
    """Neither its marker, which is all that there is when it begins, nor a verdict; alone it leaves nothing of itself.

    The control is the directory that nobody holds.
    """
    whole, place = OutDirectory(tmp_path / "out"), OutDirectory(tmp_path / "out" / "default")
    train = tmp_path / "train.py"
    train.write_text("def train(strategy, record): raise SystemExit('it has started')")
    command = ["verify", f"{train}:train", "--strategy", "default", "--out", str(tmp_path / "out")]
    whole.make()
    whole.add("default")
    place.make()
    with place.held():
        for entries in ({MARKER}, {MARKER, VERDICT}):
            if VERDICT in entries:
                place.add(VERDICT)
                (place.path / VERDICT).write_text("{}")
            assert "is in use by another run of Lockstep" in usage_error(*command)
            assert {path.name for path in place.path.iterdir()} == entries
    (place.path / VERDICT).unlink()
    place.unmake()
    assert not place.path.exists()
