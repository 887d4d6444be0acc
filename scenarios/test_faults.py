"""What training does after each fault: who notices it and when, and that the numbers are those of an undisturbed run.

Bounds of detection times are those of docs/faults-measured.md and ten seconds more, since the machine may be busy.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import StrategyCase
from harness.search import survives
from scenarios.programs.faulted import asynchronous, recorded
from scenarios.programs.faulted.judging import problems, resumed_after, straggler
from scenarios.programs.faulted.surviving import Told, plan_of, running, survive
from scenarios.programs.faulted.synchronous import CHECKPOINTS, LIMIT, train
from simulator import Cluster, Topology
from simulator.capabilities.namespaces import try_namespaces
from simulator.faults import (
    Bitflip,
    Crash,
    CrashLoop,
    DiskFull,
    Fault,
    Kill,
    LateStart,
    Nan,
    Oom,
    Pause,
    Preempt,
    Restart,
    Slow,
    TornCheckpoint,
)
from simulator.journal import read_journal
from simulator.machines.local.small_disk import call_on_small_disk

TABLE = "What training does after each fault"
MARGIN_SECONDS = 10.0
FULL = pytest.mark.full

Report = Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True)
class Expected:
    """A fault, and what has to come of it.

    Attributes:
        faults: in the form of the command line.
        detected: class of the exception in a task that was not struck; empty where nobody is to notice anything.
        seconds: least and most seconds until then, without the margin.
        resumed: the step after which training is resumed; None if it goes on without a restart.
        own: how the struck tasks themselves ended.
        restarts: of the job.
        options: of the program.
        env: of the tasks, on top of what the simulator sets.
    """

    faults: tuple[Fault, ...]
    detected: str = ""
    seconds: tuple[float, float] = (0.0, 2.0)
    resumed: int | None = 4
    own: tuple[str, ...] = ()
    restarts: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


# A peer of a task that has died: at once if it has a request under way to it.
GONE: dict[str, Any] = {"detected": "UnavailableError", "seconds": (0.0, 2.0)}
# A silent task: after the limit for collectives.
SILENT: dict[str, Any] = {"detected": "DeadlineExceededError", "seconds": (LIMIT, LIMIT)}

DEATHS = {
    "kill": Expected((Kill("worker:0", step=7),), own=("Signal",), **GONE),
    "pause": Expected((Pause("worker:1", step=7),), **SILENT),
    # The other worker takes part in the save, and then leaves too.
    "preempt": Expected((Preempt("worker:1", step=5, grace="30s"),), detected="SystemExit", resumed=6),
    # The new process of the task joins a cluster that still has the old one.
    "restart": Expected((Restart("worker:1", step=7),), detected="AbortedError"),
}
DEATHS_FULL = {
    # The chief has no request under way to a worker that is between two collectives, so only the scheduler notices.
    "kill_other": Expected((Kill("worker:1", step=7),), own=("Signal",)),
    "kill_group": Expected((Kill("worker:*", step=7),), own=("Signal", "Signal")),
    "exception": Expected((Crash("worker:0", step=7),), own=("InjectedCrash",), **GONE),
    "segfault": Expected((Crash("worker:0", how="segfault", step=7),), own=("Signal",), **GONE),
    "exit_code": Expected((Crash("worker:0", how="exit", code=3, step=7),), own=("Exit",), **GONE),
    "oom": Expected((Oom("worker:0", step=7),), own=("MemoryError",), **GONE),
    "preempt_without_grace": Expected((Preempt("worker:0", step=7, grace="0s"),), own=("Signal",), **GONE),
    "pause_chief": Expected((Pause("worker:0", step=7),), **SILENT),
    "crash_loop": Expected((CrashLoop("worker:1", step=7, times=3),), detected="AbortedError", restarts=4),
    "killed_before_save": Expected((Kill("worker:0", phase="before_save", nth=2),), own=("Signal",), **GONE),
    "killed_in_save": Expected((Kill("worker:0", phase="in_save", nth=2),), own=("Signal",), **GONE),
    "killed_before_index": Expected(
        (Kill("worker:0", phase="after_data_before_index", nth=2),), own=("Signal",), **GONE
    ),
    "killed_before_restore": Expected(
        (Kill("worker:0", step=7), Kill("worker:0", phase="before_restore")),
        own=("Signal", "Signal"),
        restarts=2,
        **GONE,
    ),
    "disk_full": Expected(
        (DiskFull("worker:0", phase="before_save", nth=2, size="512KiB"),),
        own=("OutOfRangeError",),
        options={"ballast": 2**20},
        **GONE,
    ),
}


def _cases(*tables: Mapping[str, Expected]) -> list[Any]:
    quick, *full = tables
    return [
        *(pytest.param(expected, id=name) for name, expected in quick.items()),
        *(pytest.param(expected, id=name, marks=FULL) for table in full for name, expected in table.items()),
    ]


def _check_detection(told: Told, expected: Expected) -> None:
    if not expected.detected:
        return
    assert told.detection is not None
    kind, _, seconds = told.detection
    assert kind == expected.detected
    least, most = expected.seconds
    assert least - 0.1 <= seconds <= most + MARGIN_SECONDS


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("expected", _cases(DEATHS, DEATHS_FULL))
def test_a_job_is_resumed_exactly(
    strategy: StrategyCase, expected: Expected, tmp_path: Path, report_row: Report
) -> None:
    """A worker that ends or falls silent is noticed in time, and the restarted job repeats the undisturbed numbers."""
    told = survive(
        strategy, plan_of(*expected.faults), train, tmp_path, restarts=expected.restarts, env={}, **expected.options
    )
    assert problems(told, tmp_path, expected.resumed) == []
    _check_detection(told, expected)
    assert told.own_errors[: len(expected.own)] == list(expected.own)
    environment = told.plan.faults[0].kind in ("oom", "disk_full")
    assert told.of("fired")[0]["environment"] is environment
    report_row(TABLE, told.row(strategy, f"job restarted, resumed after step {expected.resumed}, exact"))


@FULL
@pytest.mark.strategies("multi_worker-2")
def test_a_full_file_system_keeps_the_last_checkpoint(
    strategy: StrategyCase, tmp_path: Path, report_row: Report
) -> None:
    """A save that finds no room fails, the checkpoint before it is resumed from, and the next save works again."""
    trials = try_namespaces()
    if why := trials["user_namespaces"] or trials["mount_namespaces"]:
        pytest.skip(f"needs a small file system of its own, which this machine does not permit: {why}")
    found = call_on_small_disk("scenarios.programs.faulted.full_disk", tmp_path / "disk", 16 * 2**20, strategy.name)
    assert found["problems"] == []
    assert found["errors"][:1] == ["ResourceExhaustedError"]
    assert found["fired"][0]["effect"]["refused"] == "ENOSPC"
    report_row(TABLE, found["row"])


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize(
    "fault",
    [
        Slow("worker:1", step=2, per_step="100ms"),
        pytest.param(Slow("worker:1", step=2, factor=10.0, period="200ms"), marks=FULL),
        pytest.param(LateStart("worker:1", duration="2s"), marks=FULL),
    ],
    ids=["per_step", "factor", "late_start"],
)
def test_a_straggler_costs_only_time(strategy: StrategyCase, fault: Fault, tmp_path: Path, report_row: Report) -> None:
    """A slow or late worker changes no number, nothing is restarted, and the beginnings of steps tell the slow one."""
    told = survive(strategy, plan_of(fault), train, tmp_path, restarts=0, env={}, limit=None)
    assert problems(told, tmp_path) == []
    assert not told.of("error")
    behind = straggler(tmp_path, strategy.clients, after=2)
    outcome = "went on, exact"
    if getattr(fault, "per_step", None):
        # Of 0.1 s; on a busy machine the others begin late as well.
        assert behind["worker:1"] >= 0.05
        assert behind["worker:0"] < behind["worker:1"] / 3
        outcome += f"; worker:1 begins its steps {behind['worker:1']:.2f} s after the others"
    report_row(TABLE, told.row(strategy, outcome))


KILL = Kill("worker:0", step=9)
# Both workers stand still, so that they find the same files.
DAMAGED = {"phase": "before_restore", "of": "worker:*"}


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize(
    "damage",
    [
        {"damage": "flip_bit"},
        pytest.param({"damage": "truncate"}, marks=FULL),
        pytest.param({"damage": "zero_block"}, marks=FULL),
        pytest.param({"damage": "remove", "file": "*.data-*"}, marks=FULL),
        pytest.param({"damage": "remove", "file": "*.index"}, marks=FULL),
        pytest.param({"damage": "empty", "file": "*.index"}, marks=FULL),
        pytest.param({"damage": "truncate", "file": "*.index"}, marks=FULL),
    ],
    ids=["flip_bit", "truncate", "zero_block", "data_lost", "index_lost", "index_empty", "index_truncated"],
)
def test_a_damaged_checkpoint_is_passed_over(
    strategy: StrategyCase, damage: dict[str, str], tmp_path: Path, report_row: Report
) -> None:
    """A program that tries older checkpoints resumes from the one before, with the undisturbed numbers."""
    torn = TornCheckpoint(directory=tmp_path / CHECKPOINTS, **DAMAGED, **damage)
    told = survive(strategy, plan_of(KILL, torn), train, tmp_path, env={}, guarded=True)
    assert problems(told, tmp_path, 4) == []
    report_row(TABLE, told.row(strategy, "resumed after step 4 from the checkpoint before, exact"))


@FULL
@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize(
    ("damage", "error"),
    [
        # A checksum: DataLossError from the op that restores, its base from what reads the object graph.
        ({"damage": "flip_bit"}, "OpError"),
        ({"damage": "truncate"}, "IndexError"),
        ({"damage": "remove", "file": "*.data-*"}, "OpError"),
        ({"damage": "truncate", "file": "*.index"}, "OpError"),
        ({"damage": "empty", "file": "checkpoint"}, "ValueError"),
    ],
    ids=["flip_bit", "truncate", "data_lost", "index_truncated", "state_empty"],
)
def test_a_damaged_checkpoint_is_an_error(
    strategy: StrategyCase, damage: dict[str, str], error: str, tmp_path: Path, report_row: Report
) -> None:
    """A program that restores the latest checkpoint fails on one that is damaged, and never trains on garbage."""
    # The file `checkpoint` is read before anything is restored, so it is damaged while the job is still dead.
    early = damage.get("file") == "checkpoint"
    when = {"step": 9, "of": "worker:0"} if early else DAMAGED
    torn = TornCheckpoint(directory=tmp_path / CHECKPOINTS, **when, **damage)
    faults = (torn, KILL) if early else (KILL, torn)
    told = survive(strategy, plan_of(*faults), train, tmp_path, env={})
    assert told.failure is not None
    assert error in told.failure.root_cause.bases
    assert resumed_after(tmp_path) == [0]
    assert told.orphans == []
    report_row(TABLE, told.row(strategy, f"{told.failure.root_cause.kind}, not resumed"))


@FULL
@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize(
    ("damage", "resumed"),
    [({"damage": "stale"}, 4), ({"damage": "remove", "file": "ckpt-8.index"}, 0)],
    ids=["stale", "index_lost"],
)
def test_an_older_state_is_not_taken_for_the_latest(
    strategy: StrategyCase, damage: dict[str, str], resumed: int, tmp_path: Path, report_row: Report
) -> None:
    """A stale `checkpoint` file costs steps, a lost index all of them, and no exception says so: the steps do."""
    torn = TornCheckpoint(step=9, of="worker:0", directory=tmp_path / CHECKPOINTS, **damage)
    told = survive(strategy, plan_of(torn, KILL), train, tmp_path, env={})
    assert problems(told, tmp_path, resumed) == []
    assert any("began after steps" in text for text in problems(told, tmp_path, 8))
    report_row(TABLE, told.row(strategy, f"job restarted, silently resumed after step {resumed} instead of 8, exact"))


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize(
    "fault",
    [
        Bitflip("worker:1", step=4, element=1, bit=30),
        pytest.param(Nan("worker:1", step=4, element=1), marks=FULL),
        pytest.param(Bitflip("worker:1", target="variable", step=3, element=1, bit=21), marks=FULL),
        pytest.param(Nan("worker:0", target="variable", step=3, element=0), marks=FULL),
    ],
    ids=["bit_of_gradient", "nan_gradient", "bit_of_variable", "nan_variable"],
)
def test_silent_corruption_is_noticed_by_a_law(strategy: StrategyCase, fault: Fault, report_row: Report) -> None:
    """One wrong number in one gradient or variable of one worker: the verdict names the step and the variable."""
    found = survives(recorded.train, strategy, plan_of(fault), tier="exact", restarts=0)
    assert found.symptom == "numbers"
    assert "step 4" in found.text
    assert "weights" in found.text
    first = next(line.strip() for line in found.text.splitlines() if "step 4" in line)
    report_row("What the laws say of a wrong number", {"fault": fault, "first finding": first})


def _reads_and_multiplies(steps: int) -> int:
    """Steps of a tf.function on data that other threads prepare; returns the incarnation."""
    import tensorflow as tf

    from simulator.agent import current

    task = current()
    assert task is not None
    data = tf.data.Dataset.range(steps).map(lambda number: tf.fill([300, 300], number), num_parallel_calls=2)
    multiply = tf.function(lambda batch: tf.reduce_sum(tf.matmul(batch, batch)))
    for number, batch in enumerate(data.prefetch(2), start=1):
        multiply(batch)
        task.step(number)
    return task.spec.incarnation


@pytest.mark.parametrize("attempt", [1, *(pytest.param(number, marks=FULL) for number in range(2, 6))])
def test_memory_runs_out_each_time(attempt: int, tmp_path: Path) -> None:
    """A TensorFlow task ends by MemoryError whatever its other threads do, and the shortage is the machine's."""
    faults = plan_of(Oom("worker:0", step=3))
    with Cluster(Topology(worker=1), timeout=60, faults=faults, restarts=1, out=tmp_path) as cluster:
        result = cluster.run(_reads_and_multiplies, 6)["worker:0"]
    first, _ = result.incarnations
    assert (first.exit, first.error.kind if first.error else None, result.value) == (1, "MemoryError", 1), attempt
    (fired,) = [event for event in read_journal(tmp_path / "0" / "journal.jsonl") if event["event"] == "fired"]
    assert (fired["environment"], fired["effect"]["refused"]) == (True, {"worker:0": "MemoryError"})


@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("mistake", ["never_restores", pytest.param("momentum_not_saved", marks=FULL)])
def test_a_job_that_restores_wrongly_is_found_out(strategy: StrategyCase, mistake: str, tmp_path: Path) -> None:
    """Negative control: without a restore, or with half of one, the same fault leads to an inconsistent run."""
    plan = plan_of(Kill("worker:0", step=7))
    told = survive(strategy, plan, train, tmp_path, env={}, mistake=mistake)
    wrong = problems(told, tmp_path, 4)
    expected = "began after steps [0, 0]" if mistake == "never_restores" else "incarnation 1, step 5: weights"
    assert any(expected in text for text in wrong)


@pytest.mark.strategies("multi_worker-2")
def test_a_save_in_place_is_found_out(strategy: StrategyCase, tmp_path: Path) -> None:
    """Negative control: a file that is written over without a rename, cut in the middle, is restored as garbage."""
    plan = plan_of(Kill("worker:0", phase="in_save", nth=2))
    told = survive(strategy, plan, train, tmp_path, env={}, mistake="saves_in_place")
    assert told.of("fired")
    assert problems(told, tmp_path, 4)


@pytest.mark.strategies("multi_worker-2")
def test_a_fault_that_does_not_strike_fails_the_run(strategy: StrategyCase, tmp_path: Path) -> None:
    """Negative control: all numbers are right, and yet the run fails, since it has shown nothing."""
    told = survive(strategy, plan_of(Kill("worker:0", step=99)), train, tmp_path, env={})
    assert told.failure is not None
    assert told.failure.root_cause.kind == "FaultNotFired"


@FULL
@pytest.mark.strategies("multi_worker-2")
@pytest.mark.parametrize("task", ["worker:0", "worker:1"])
def test_a_pause_is_detected_without_limits(
    strategy: StrategyCase, task: str, tmp_path: Path, report_row: Report
) -> None:
    """With nothing set, TensorFlow's heartbeats tell of a silent worker after about ten seconds."""
    told = survive(strategy, plan_of(Pause(task, step=7)), train, tmp_path, env={}, limit=None)
    assert problems(told, tmp_path, 4) == []
    assert told.detection is not None
    kind, _, seconds = told.detection
    assert kind in ("UnavailableError", "DeadlineExceededError")
    assert 5.0 <= seconds <= 10.0 + MARGIN_SECONDS
    report_row(TABLE, told.row(strategy, "job restarted, resumed after step 4, exact; no limit was set"))


IN_SAVE = Pause("worker:0", at="save:begun:2")


@FULL
@pytest.mark.strategies("multi_worker-2")
def test_a_zombie_is_dead_before_the_job_starts_again(strategy: StrategyCase, tmp_path: Path) -> None:
    """A chief that is stopped in a save is killed before its successor begins: nobody wakes up to write."""
    cluster = {"faults": plan_of(IN_SAVE), "restarts": 1, "timeout": 60.0}
    with running(strategy, train, tmp_path, cluster=cluster) as (_, join):
        told = join()
    assert problems(told, tmp_path, 4) == []
    (ended,) = told.of("exit", task="worker:0", incarnation=0)
    (began,) = told.of("hello", task="worker:0", incarnation=1)
    assert ended["signal"] == "SIGKILL"
    assert ended["t"] < told.of("restart")[0]["t"] < began["t"]
    with pytest.raises(ProcessLookupError):
        os.killpg(told.of("hello", task="worker:0", incarnation=0)[0]["pid"], signal.SIGCONT)
    assert 'model_checkpoint_path: "ckpt-12"' in (tmp_path / CHECKPOINTS / "checkpoint").read_text()


@FULL
@pytest.mark.strategies("multi_worker-2")
def test_a_zombie_without_a_fence_spoils_the_checkpoint(strategy: StrategyCase, tmp_path: Path) -> None:
    """Negative control: an old chief that is left stopped, and woken later, makes its old save the latest."""
    with running(strategy, train, tmp_path, cluster={"faults": plan_of(IN_SAVE), "timeout": 60.0}) as (old, _):
        old.wait(lambda: old.tasks["worker:1"].error is not None, "worker:1 to fail", 60)
        with Cluster(strategy.topology, timeout=60) as second:
            assert second.run(train, strategy, tmp_path)["worker:0"].value == 12
        state = tmp_path / CHECKPOINTS / "checkpoint"
        assert 'model_checkpoint_path: "ckpt-12"' in state.read_text()
        old.tasks["worker:0"].signal_group(signal.SIGCONT)
        old.wait(lambda: old.tasks["worker:0"].finished, "worker:0 to finish", 60)
        assert 'model_checkpoint_path: "ckpt-8"' in state.read_text()


# -- parameter servers


def _counts(values: Mapping[str, Any]) -> list[int]:
    """How often each update was applied."""
    return [int(value / -asynchronous.LEARNING_RATE) for value in values["weights"]]


@pytest.mark.strategies("parameter_server-2w1p")
@pytest.mark.parametrize(
    ("fault", "retries_max"),
    [
        (Kill("worker:1", of="chief:0", step=1, restart="0s"), 1),
        pytest.param(Kill("worker:*", of="chief:0", step=1, restart="500ms"), 2, marks=FULL),
        pytest.param(Pause("worker:1", of="chief:0", step=1, duration="6s"), 0, marks=FULL),
    ],
    ids=["killed", "all_killed", "paused"],
)
def test_no_update_is_lost(strategy: StrategyCase, fault: Fault, retries_max: int, report_row: Report) -> None:
    """Every update is applied, and at most those that were under way in a dead worker a second time."""
    cluster = {"faults": plan_of(fault), "timeout": 60.0}
    with running(strategy, asynchronous.train, cluster=cluster) as (_, join):
        told = join()
    assert told.failure is None
    assert told.orphans == []
    value = told.result["chief:0"].value
    counts = _counts(value)
    assert min(counts) >= 1
    # A worker has one closure at a time.
    assert value["retries"] <= retries_max
    assert asynchronous.UPDATES <= sum(counts) <= asynchronous.UPDATES + value["retries"]
    if fault.kind == "pause":
        assert value["seconds"] >= 5.0
        assert not told.of("error")
    report_row(TABLE, told.row(strategy, f"{sum(counts)} updates of {asynchronous.UPDATES} scheduled"))


@pytest.mark.strategies("parameter_server-2w1p")
def test_a_lost_parameter_server_is_an_error(strategy: StrategyCase, report_row: Report) -> None:
    """The chief gets an UnavailableError at once: the variables are gone, and nothing brings them back."""
    cluster = {"faults": plan_of(Kill("ps:0", of="chief:0", step=1)), "timeout": 60.0}
    with running(strategy, asynchronous.train, cluster=cluster) as (_, join):
        told = join()
    assert told.failure is not None
    assert told.detection is not None
    kind, task, seconds = told.detection
    assert (kind, task) == ("UnavailableError", "chief:0")
    assert seconds <= 0.3 + MARGIN_SECONDS
    assert told.orphans == []
    report_row(TABLE, told.row(strategy, "the job fails"))
