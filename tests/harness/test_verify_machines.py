"""`verify` over machines: the run's tasks there, its reference here; both machines are this one, with a site each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from harness import StrategyCase, strategy_case, verify
from harness.evidence.parts import TRACES
from harness.running.machine_files import brought_if_failed, placed_program, record_directory
from harness.subject.machines import OVER_VARIABLE, Over
from harness.subject.program import Program
from simulator import Cluster, FaultPlan, RunFailed, RunResult, TaskError, UsageError
from simulator.faults import Kill, MachineLost, Partition
from simulator.machines.protocol import LEFT
from tests._present import present
from tests.harness._called import json_of
from tests.harness._mistaken import commuting
from tests.harness._programs import alone, exact
from tests.harness._resumable import training
from tests.simulator.lab.machines import lab

ROOT = Path(__file__).parents[2]
TWO = "env MACHINE={}:m0,m1"
PARTED = Partition(src="worker:0", dst="worker:1", bytes_="1KiB")


class _Seeing:
    """A cluster whose machines see these directories as this one does."""

    def __init__(self, *seen: Path) -> None:
        self._seen = seen

    def sees(self, directory: Path) -> bool:
        return directory in self._seen


def _over(files: str | None) -> StrategyCase:
    return strategy_case("multi_worker-2", over=Over(TWO, files=files))


@pytest.fixture(autouse=True)
def _where_machines_find_lockstep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands begin in this directory, which is that of the checkout."""
    monkeypatch.chdir(ROOT)


def test_what_is_saved_is_where_all_machines_see_it(here: Path) -> None:
    """In the run's own directory, else in one of the working directory, which they share; that one does not stay."""
    kept = here / "kept"
    kept.mkdir()
    with record_directory(cast("Cluster", _Seeing(kept)), _over("ship"), kept, needed=True) as directory:
        assert directory == kept
    with record_directory(cast("Cluster", _Seeing()), _over(None), kept, needed=True) as directory:
        assert directory is not None
        assert directory.parent == here
        (directory / "checkpoint").write_text("saved")
    assert (kept / "checkpoint").read_text() == "saved"
    assert [path.name for path in here.iterdir()] == ["kept"]


def test_what_a_run_has_saved_that_fails_is_kept(here: Path) -> None:
    """And what it has recorded: its numbers may be judged, and somebody has to look."""
    kept, run, traces = (here / name for name in ("kept", "run", "traces"))
    (run / LEFT / TRACES).mkdir(parents=True)
    (run / LEFT / TRACES / "worker-0.trace").write_text("recorded")
    failed = RunFailed((TaskError("worker:0", "Exit", "code 7", at=1.0),), RunResult({}, 0.0, run))

    def run_that_fails() -> None:
        with (
            record_directory(cast("Cluster", _Seeing()), _over(None), kept, needed=True) as directory,
            brought_if_failed(traces),
        ):
            assert directory is not None
            (directory / "checkpoint").write_text("saved")
            raise failed

    with pytest.raises(RunFailed):
        run_that_fails()
    assert (kept / "checkpoint").read_text() == "saved"
    assert (traces / "worker-0.trace").read_text() == "recorded"


def test_a_directory_that_machines_do_not_share_is_refused_where_it_is_needed(tmp_path: Path) -> None:
    """Where it is not, each machine has one of its own."""
    nobody, case = cast("Cluster", _Seeing()), _over("ship")
    refused = pytest.raises(UsageError, match=r"the machines share none: run from a directory that all of them have")
    with refused, record_directory(nobody, case, tmp_path, needed=True):
        pass
    with record_directory(nobody, case, tmp_path, needed=False) as directory:
        assert directory is None


def test_clusters_of_a_session_are_on_its_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest's option has it; what was asked for goes first, and a single process stays here."""
    monkeypatch.setenv(OVER_VARIABLE, Over(TWO, (("worker:0", "m1"),), "ship").as_default())
    found = present(strategy_case("multi_worker-2").over)
    asked = {name: value for name, value in found.options.items() if value is not None}
    assert asked == {"machines": TWO, "place": {"worker:0": "m1"}, "files": "ship"}
    assert strategy_case("mirrored-2").over is None
    assert strategy_case("multi_worker-2", over=Over("ssh {}:a,b")).over == Over("ssh {}:a,b")
    assert strategy_case("mirrored-2", over=Over("ssh {}:a")).over == Over("ssh {}:a")


def test_a_function_is_what_it_is_where_files_are_shared() -> None:
    """Nothing has to be done to have it run there."""
    function = Program.of(exact())
    assert placed_program(function, _over(None)) is function


def test_a_file_that_is_not_sent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is gets known by its place below the working directory."""
    (tmp_path / "below").mkdir()
    for path in (tmp_path / "other.py", tmp_path / "below" / "sent.py"):
        path.write_text("def train(strategy, record): return strategy")
    monkeypatch.chdir(tmp_path / "below")
    sent = placed_program(Program.of("sent.py:train"), _over("ship"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        sent.load()
    monkeypatch.chdir(tmp_path / "below")
    assert sent.load()("loaded", None) == "loaded"
    with pytest.raises(UsageError, match=r"is not below .*, whose files are sent; run from a folder that has it"):
        placed_program(Program.of(f"{tmp_path}/other.py:train"), _over("ship"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"place": {"worker:0": "m1"}}, "place is about machines"),
        ({"files": "ship"}, "files is about machines"),
        ({"machines": TWO, "place": {"worker:7": "m1"}}, "there is no task 'worker:7'"),
        ({"machines": "ssh m0"}, "is not understood"),
        ({"machines": TWO, "network": "namespaces"}, "cannot be had with --machines"),
        (
            {"machines": TWO, "faults": FaultPlan(faults=(MachineLost("worker:1", step=1), PARTED))},
            "waits for what a link carries",
        ),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_runs(options: dict[str, Any], why: str) -> None:
    """By one sentence."""
    with pytest.raises(UsageError, match=why):
        verify(exact(), "multi_worker-2", **options)


def test_a_machine_that_cannot_be_reached_is_exit_code_4() -> None:
    """Before the reference is made; in JSON with the keys of a verdict."""
    asked = ("examples/verify_custom_loop.py:train", "--strategy", "multi_worker-2")
    found = json_of("verify", *asked, "--machines", "sh -c 'exit 9' {}:m0", code=4)
    assert found["consistent"] is False
    assert "machine m0 cannot be used: the command that leads to it ended with exit code 9" in found["error"]


@pytest.mark.full
def test_a_right_program_is_consistent_over_machines(tmp_path: Path) -> None:
    """By traces that were brought here while they grew; the verdict says which task was where."""
    out = tmp_path / "out"
    place = {"worker:0": "m1", "worker:1": "m0"}
    verdict = verify(exact(), "multi_worker-2", machines=TWO, place=place, tier="exact", out=out)
    assert verdict, str(verdict)
    assert verdict.machines == {"m1": ["worker:0"], "m0": ["worker:1"]}
    assert sorted(path.name for path in (out / "traces").glob("*.trace")) == ["worker-0.trace", "worker-1.trace"]
    assert "machines: " in str(verdict)
    assert "tasks_connected" in {law.law for law in verdict.judgements if law.status == "held"}


@pytest.mark.full
@pytest.mark.parametrize("files", ["shared", "ship"])
def test_a_wrong_program_is_found_over_machines(files: str) -> None:
    """With the law and the step as on one machine."""
    verdict = verify(exact("example_dropped"), "multi_worker-2", tier="exact", machines=TWO, files=files)
    assert not verdict
    broken = {judgement.law for judgement in verdict.judgements if judgement.status == "broken"}
    assert "examples_match_reference" in broken
    assert verdict.findings[0].step == 1


def _tripled(strategy: Any, record: Any) -> None:
    """A training that is right here, and wrong wherever there is a name of a machine."""
    import os

    import tensorflow as tf

    times = 3.0 if "MACHINE" in os.environ else 1.0
    with strategy.scope():
        w = tf.Variable(1.0, name="w", aggregation=tf.VariableAggregation.SUM)

    @tf.function
    def step() -> tf.Tensor:
        def one() -> tf.Tensor:
            loss = times * w / strategy.num_replicas_in_sync
            w.assign_sub(0.25 * loss)
            return loss

        return strategy.reduce("SUM", strategy.run(one), axis=None)

    for _ in range(2):
        record.step(loss=step(), variables=[w])


@pytest.mark.full
def test_a_line_is_named_only_of_what_is_wrong_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs that explain and prove are made here, which the verdict says."""
    monkeypatch.setenv("LOCKSTEP_CULPRIT", "1")
    named = verify("examples/verify_custom_loop.py:train_wrong", "multi_worker-2", machines=TWO, prove=True)
    assert present(named.culprit).lines[0].startswith("examples/verify_custom_loop.py:28")
    assert present(named.proof).status == "refuted"
    assert "; the reference and all other runs were here" in str(named)
    there = verify(_tripled, "multi_worker-2", machines=TWO, prove=False)
    assert not there
    assert there.culprit is None
    assert "that run was on this machine" in str(present(there.looked).why_not)


@pytest.mark.full
@pytest.mark.parametrize(("mistake", "consistent"), [("", True), ("scratch", False)])
def test_an_interrupted_training_is_judged_over_machines(mistake: str, consistent: bool) -> None:
    """Both parts of it, with what was saved in a directory that all machines see."""
    verdict = verify(training(mistake), "multi_worker-2", interrupt_at=5, machines=TWO)
    assert verdict.consistent is consistent, str(verdict)
    assert verdict.interrupted is not None or not consistent


@pytest.mark.full
@pytest.mark.parametrize(("mistake", "consistent"), [("", True), ("older", False)])
def test_a_training_under_faults_is_judged_over_machines(mistake: str, consistent: bool) -> None:
    """A worker is killed, all are started again on their machines, and each part is judged."""
    plan = FaultPlan(faults=(Kill(task="worker:1", step=5),))
    verdict = verify(training(mistake), "multi_worker-2", faults=plan, machines=TWO)
    assert verdict.consistent is consistent, str(verdict)
    assert {task["incarnation"] for task in verdict.tasks.values()} == {1}


@pytest.mark.full
def test_workers_that_train_apart_are_found_over_machines() -> None:
    """By what went between their machines, which is too little."""
    verdict = verify(alone, "multi_worker-2", tier="exact", machines=TWO)
    assert not verdict
    assert {law.law for law in verdict.judgements if law.status == "broken"} == {"tasks_connected"}


@pytest.mark.full
def test_a_coordinator_is_judged_over_machines() -> None:
    """Its servers are on the other machine."""
    place = {"chief:0": "m0", "worker:0": "m1", "ps:0": "m1"}
    verdict = verify(commuting(), "parameter_server-1w1p", tier="exact", machines=TWO, place=place)
    assert verdict, str(verdict)
    assert verdict.machines == {"m0": ["chief:0"], "m1": ["worker:0", "ps:0"]}
    wrong = verify(commuting("lost"), "parameter_server-1w1p", tier="exact", machines=TWO, place=place)
    assert not wrong


@pytest.mark.full
@pytest.mark.parametrize(("mistake", "consistent"), [("", True), ("older", False)])
def test_a_training_that_loses_a_machine_is_judged(mistake: str, consistent: bool) -> None:
    """It goes on from its last checkpoint, with a machine that had nothing to do until then."""
    plan = FaultPlan(faults=(MachineLost(task="worker:1", step=5),))
    verdict = verify(training(mistake), "multi_worker-2", faults=plan, machines="env MACHINE={}:m0,m1,m2")
    assert verdict.consistent is consistent, str(verdict)
    assert verdict.machines == {"m0": ["worker:0"], "m2": ["worker:1"]}
    # By what was counted on the machines that were not lost.
    assert "tasks_connected" in {law.law for law in verdict.judgements if law.status == "held"}


@pytest.mark.full
@pytest.mark.parametrize(("mistake", "consistent"), [("", True), ("older", False)])
def test_a_coordinator_that_loses_the_machine_of_a_worker_is_judged(
    mistake: str, consistent: bool, tmp_path: Path
) -> None:
    """All tasks begin again, the worker on a machine that had nothing to do; policy `task` is the default."""
    plan = FaultPlan(faults=(MachineLost(task="worker:1", step=5),))
    place = {"chief:0": "m0", "ps:0": "m0", "worker:0": "m0", "worker:1": "m1"}
    with lab(tmp_path, count=3) as made:
        options: dict[str, Any] = {"machines": made.machines, "place": place}
        verdict = verify(training(mistake), "parameter_server-2w1p", faults=plan, timeout=180, **options)
    assert verdict.consistent is consistent, str(verdict)
    assert verdict.machines == {"m0": ["chief:0", "worker:0", "ps:0"], "m2": ["worker:1"]}
    assert {task["incarnation"] for task in verdict.tasks.values()} == {1}


@pytest.mark.full
def test_machines_that_share_little_are_judged(tmp_path: Path) -> None:
    """Neither clocks, by which parts are told apart, nor temporary files: checkpoints are in the working directory."""
    # Steps count from 1 in each process, and the second one goes on after step 2.
    plan = FaultPlan(faults=(Kill(task="worker:1", step=2), Kill(task="worker:1", step=5)))
    with lab(tmp_path) as made:
        verdict = verify(training(), "multi_worker-2", faults=plan, machines=made.machines)
    assert verdict, str(verdict)
    assert {task["incarnation"] for task in verdict.tasks.values()} == {2}
    assert verdict.interrupted == {"at": 7, "resumed_at": 6, "resume_strategy": "multi_worker-2"}
    assert not list(ROOT.glob(".lockstep-*"))
