"""Each kind of fault on fake tasks: that it strikes at its trigger, is proved, and is undone."""

from __future__ import annotations

import itertools
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simulator import Cluster, FaultPlan, RunFailed, Topology
from simulator.faults import (
    Crash,
    CrashLoop,
    DiskFull,
    Fault,
    Kill,
    LateStart,
    Oom,
    Pause,
    Preempt,
    Restart,
    Slow,
    TornCheckpoint,
)
from simulator.faults.injector.strike import Strike
from tests._ended import has_ended
from tests.simulator._faults import events, own_agent, plan_of, run_steps, steps
from tests.simulator._only_run import bare, result_of


def _effects(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the one fault was proved by, and what its undo did."""
    (fired,), (undone,) = events(out, "fired"), events(out, "undone")
    assert fired["fault"] == undone["fault"]
    assert fired["t"] <= undone["t"]
    return fired["effect"], undone["effect"]


def test_kill_is_exact_to_the_step_and_no_failure_by_itself(tmp_path: Path) -> None:
    """The task dies by SIGKILL after the step of the plan and before the next; the others go on."""
    result = run_steps(plan_of(Kill("worker:1", step=5)), tmp_path)
    assert (result["worker:1"].signal, result["worker:1"].steps, result["worker:1"].error) == ("SIGKILL", 5, None)
    assert (result["worker:0"].value, result["worker:0"].steps) == (0, 12)
    assert _effects(tmp_path) == ({"ended": {"worker:1": "SIGKILL"}}, {})


def test_kill_with_restart_brings_a_new_incarnation(tmp_path: Path) -> None:
    """The undo of a death is its restart; the gate that was passed does not hold the new incarnation."""
    result = run_steps(plan_of(Kill("worker:1", step=5, restart="20ms")), tmp_path)
    assert (result["worker:1"].value, result["worker:1"].incarnation, result["worker:1"].steps) == (1, 1, 12)
    assert _effects(tmp_path)[1] == {"restarted": {"worker:1": 1}}


def test_a_program_that_is_none_of_pythons_is_struck_and_comes_back(tmp_path: Path) -> None:
    """Nobody greets there, so that it is up as soon as its process is there; the next one ends at once."""
    there = tmp_path / "there"
    plan = plan_of(Kill("worker:0", log="begun", of="worker:0", restart="20ms"))
    program = ["sh", "-c", f"[ -e {there} ] && exec echo begun; touch {there}; echo begun; exec sleep 60"]
    with Cluster(Topology(worker=1), preload=(), timeout=20, faults=plan, out=tmp_path / "out") as cluster:
        result = cluster.run_command(program)
    assert result["worker:0"].incarnation == 1
    assert _effects(tmp_path / "out") == ({"ended": {"worker:0": "SIGKILL"}}, {"restarted": {"worker:0": 1}})


def test_a_group_is_struck_at_once_when_all_stand_there(tmp_path: Path) -> None:
    """A power cut: nobody of the group is a step further than the others."""
    result = run_steps(plan_of(Kill("worker:*", step=4)), tmp_path, workers=3)
    assert {task.steps for task in result.values()} == {4}
    assert {task.signal for task in result.values()} == {"SIGKILL"}


def test_a_task_that_is_being_started_again_is_struck_when_it_is_up(tmp_path: Path) -> None:
    """The second fault comes while the first one's restart is due, and strikes the new incarnation."""
    plan = plan_of(
        Kill("worker:1", of="worker:0", step=3, restart="100ms"),
        Pause("worker:1", of="worker:0", step=4, duration="30ms"),
    )
    result = run_steps(plan, tmp_path, struck=2)
    assert (result["worker:1"].incarnation, result["worker:1"].steps) == (1, 12)
    restarted = events(tmp_path, "restart")[0]["t"]
    assert [event["t"] > restarted for event in events(tmp_path, "fired")] == [False, True]


def test_one_task_triggers_a_fault_on_another(tmp_path: Path) -> None:
    """With `of`, the task that is killed need not be at that step."""
    result = run_steps(plan_of(Kill("worker:1", step=3, of="worker:0")), tmp_path, struck=1)
    assert (result["worker:0"].steps, result["worker:1"].signal) == (12, "SIGKILL")


def test_restart_policies_see_a_planned_death(tmp_path: Path) -> None:
    """With restarts allowed and none in the fault, the job's policy answers the death."""
    plan = plan_of(Kill("worker:1", step=5))
    result = result_of(bare(Topology(worker=2), faults=plan, restarts=1, out=tmp_path), steps, 12, 0.01)
    assert [task.incarnation for task in result.values()] == [1, 1]


@pytest.mark.parametrize(("how", "exit_code"), [("exception", 1), ("segfault", -signal.SIGSEGV), ("exit", 7)])
def test_crash_ends_the_task_from_within(tmp_path: Path, how: str, exit_code: int) -> None:
    """An exception out of the program, a real segmentation fault, or an exit code."""
    code = {"code": exit_code} if how == "exit" else {}
    result = run_steps(plan_of(Crash("worker:1", step=3, how=how, **code)), tmp_path)
    assert (result["worker:1"].exit, result["worker:1"].steps) == (exit_code, 3)
    assert ("InjectedCrash" in result["worker:1"].log) == (how == "exception")


def _deaf(count: int) -> None:
    """Do not react to SIGTERM, as TensorFlow in multi-worker training does not."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    steps(count, 0.02)


@pytest.mark.parametrize(("body", "signal_name", "in_time"), [(steps, "SIGTERM", True), (_deaf, "SIGKILL", False)])
def test_preempt_gives_notice_then_kills(tmp_path: Path, body: Any, signal_name: str, *, in_time: bool) -> None:
    """A task that obeys ends by SIGTERM; one that is deaf by SIGKILL, after the grace."""
    plan = plan_of(Preempt("worker:1", step=3, grace="200ms"))
    with bare(Topology(worker=2), faults=plan, out=tmp_path) as cluster:
        result = cluster.run(body, *((40, 0.02) if body is steps else (40,)))
    effect, _ = _effects(tmp_path)
    assert (result["worker:1"].signal, effect["within_grace"]) == (signal_name, in_time)
    assert in_time or effect["seconds"] >= 0.2


def test_pause_stops_the_process_and_continues_it(tmp_path: Path) -> None:
    """State T was seen, no step came meanwhile, and the task finishes."""
    result = run_steps(plan_of(Pause("worker:1", step=3, duration="150ms")), tmp_path)
    effect, undone = _effects(tmp_path)
    assert (effect["state"], undone) == ("T", {"continued": ["worker:1"]})
    times = [event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:1"]
    assert times[3] - times[2] >= 0.15
    assert result["worker:1"].steps == 12


@pytest.mark.parametrize(
    "other",
    [
        Pause("worker:1", step=3, duration="50ms"),
        Slow("worker:1", step=3, factor=3.0, period="30ms", duration="50ms"),
        Slow("worker:1", step=3, per_step="10ms", duration="50ms"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_task_stays_stopped_while_any_fault_stops_it(tmp_path: Path, other: Fault, first: bool) -> None:
    """The end of one is not that of another."""
    long = Pause("worker:1", step=3, duration="300ms")
    run_steps(plan_of(*((long, other) if first else (other, long))), tmp_path)
    times = [event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:1"]
    assert times[3] - times[2] >= 0.3


def test_a_step_is_held_for_as_long_as_any_fault_says(tmp_path: Path) -> None:
    """Two that hold each step hold it for both times; what is over holds it no more."""
    plan = plan_of(
        Slow("worker:1", step=2, per_step="20ms"), Slow("worker:1", step=2, per_step="30ms", of="worker:1", until=6)
    )
    run_steps(plan, tmp_path)
    times = [event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:1"]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(gap >= 0.05 for gap in gaps[2:4]), gaps
    assert all(gap >= 0.02 for gap in gaps[1:]), gaps


def test_pause_until_a_step_of_another_task(tmp_path: Path) -> None:
    """The end of a fault can be as exact as its beginning."""
    run_steps(plan_of(Pause("worker:1", step=3, of="worker:0", until=9)), tmp_path, struck=1)
    (fired,), (undone,) = events(tmp_path, "fired"), events(tmp_path, "undone")
    seen = {event["number"]: event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:0"}
    assert seen[3] <= fired["t"] <= seen[4]
    assert seen[9] <= undone["t"] <= seen[10]


def test_slow_by_duty_cycle(tmp_path: Path) -> None:
    """At a third of its speed the straggler needs longer than the others."""
    result = run_steps(plan_of(Slow("worker:1", step=1, factor=3.0, period="30ms")), tmp_path, count=20)
    assert _effects(tmp_path)[0]["stopped_seconds"] >= 0.02
    ends = {event["task"]: event["t"] for event in events(tmp_path, "result")}
    assert ends["worker:1"] > ends["worker:0"]
    assert result["worker:1"].steps == 20


def test_slow_by_a_time_per_step(tmp_path: Path) -> None:
    """Each step from the trigger on is held for that long."""
    run_steps(plan_of(Slow("worker:1", step=2, per_step="20ms")), tmp_path)
    assert _effects(tmp_path)[1]["held_steps"] == {"worker:1": 11}
    times = [event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:1"]
    assert all(later - earlier >= 0.02 for earlier, later in itertools.pairwise(times[1:]))


def test_restart_and_crash_loop_count_incarnations(tmp_path: Path) -> None:
    """One death and one new incarnation; three deaths and three."""
    result = run_steps(plan_of(Restart("worker:0", step=2), CrashLoop("worker:1", step=4)), tmp_path)
    assert [task.incarnation for task in result.values()] == [1, 3]
    loop = next(event for event in events(tmp_path, "fired") if event["kind"] == "crash_loop")
    assert loop["effect"]["deaths"] == 3


def test_late_start_keeps_the_program_from_beginning(tmp_path: Path) -> None:
    """The others are under way when the late task calls its function."""
    run_steps(plan_of(LateStart("worker:1", duration="200ms")), tmp_path)
    first: dict[str, float] = {}
    for event in events(tmp_path, "step"):
        first.setdefault(event["task"], event["t"])
    (fired,) = events(tmp_path, "fired")
    assert first["worker:0"] < first["worker:1"]
    assert first["worker:1"] >= fired["t"]
    assert (fired["effect"]["held_seconds"] >= 0.2, fired["effect"]["steps"]) == (True, [0])


def _write_often(directory: str, count: int) -> list[str]:
    """Write 100 KiB after each step; the outcome of each."""
    agent = own_agent()
    seen = []
    for number in range(1, count + 1):
        try:
            Path(directory, f"{os.getpid()}-{number}").write_bytes(bytes(100 * 1024))
            seen.append("ok")
        except OSError as error:
            seen.append(type(error).__name__ + str(error.errno))
        agent.step(number)
    return seen


def test_disk_full_fails_writes_until_it_is_undone(tmp_path: Path) -> None:
    """Between the two steps every write beyond the size fails with EFBIG, and afterwards none does."""
    plan = plan_of(DiskFull("worker:1", step=2, of="worker:1", until=5, size="64KiB"))
    result = result_of(bare(Topology(worker=2), faults=plan, out=tmp_path / "out"), _write_often, str(tmp_path), 8)
    assert result["worker:1"].value == ["ok", "ok", *["OSError27"] * 3, "ok", "ok", "ok"]
    assert result["worker:0"].value == ["ok"] * 8
    (fired,) = events(tmp_path / "out", "fired")
    assert fired["environment"] is True


@pytest.mark.parametrize("first", [True, False])
def test_a_disk_is_full_while_any_fault_says_so(tmp_path: Path, first: bool) -> None:
    """The end of one lifts no limit of another, and a larger size does not take the place of a smaller one."""
    short, long = (
        DiskFull("worker:1", step=2, of="worker:1", until=until, size=size)
        for until, size in ((3, "60KiB"), (5, "64KiB"))
    )
    plan = plan_of(*((short, long) if first else (long, short)))
    result = result_of(bare(Topology(worker=2), faults=plan, out=tmp_path / "out"), _write_often, str(tmp_path), 8)
    assert result["worker:1"].value == ["ok", "ok", *["OSError27"] * 3, "ok", "ok", "ok"]


def test_oom_is_a_memory_error_and_reported_as_environment(tmp_path: Path) -> None:
    """The task's allocation fails; the event says that the machine is to blame."""
    result = run_steps(plan_of(Oom("worker:1", step=3)), tmp_path)
    assert result["worker:1"].exit == 1
    assert "MemoryError" in result["worker:1"].log
    (fired,) = events(tmp_path, "fired")
    assert (fired["environment"], fired["effect"]["refused"]) == (True, {"worker:1": "MemoryError"})


def _steps_while_memory_is_given_back(times: int) -> None:
    """Announce steps; so many times a quarter of a GiB is given back just before the address space is bounded."""
    import mmap
    import resource

    held = [mmap.mmap(-1, 2**28) for _ in range(times)]
    setrlimit = resource.setrlimit

    def given_back(what: int, limits: tuple[int, int]) -> None:
        if held:
            held.pop().close()
        setrlimit(what, limits)

    resource.setrlimit = given_back
    steps(4, 0.01)


def test_oom_strikes_although_other_threads_give_memory_back(tmp_path: Path) -> None:
    """A bound that was too high when it was set is set again, until it refuses something."""
    plan = plan_of(Oom("worker:0", step=2))
    with bare(Topology(worker=1), faults=plan, out=tmp_path) as cluster:
        assert cluster.run(_steps_while_memory_is_given_back, 20)["worker:0"].exit == 1
    (fired,) = events(tmp_path, "fired")
    assert fired["effect"]["refused"] == {"worker:0": "MemoryError"}


def test_oom_that_is_never_refused_anything_has_no_effect(tmp_path: Path) -> None:
    """Negative control: where memory is given back for ever, nothing is refused, and the run fails."""
    plan = plan_of(Oom("worker:0", step=2))
    with (
        bare(Topology(worker=1), faults=plan) as cluster,
        pytest.raises(RunFailed, match="an allocation was not refused in worker:0"),
    ):
        cluster.run(_steps_while_memory_is_given_back, 1001)


def _allocate(count: int) -> list[bool]:
    """Ask for 200 MB after each step; whether it was had."""
    agent = own_agent()
    had = []
    for number in range(1, count + 1):
        try:
            bytearray(200 * 10**6)
            had.append(True)
        except MemoryError:
            had.append(False)
        agent.step(number)
    return had


def test_oom_that_is_not_fatal_lets_the_program_meet_it(tmp_path: Path) -> None:
    """The bound is there between two steps, and gone afterwards."""
    plan = plan_of(Oom("worker:0", step=2, until=4, fatal=False))
    with bare(Topology(worker=1), faults=plan, out=tmp_path) as cluster:
        assert cluster.run(_allocate, 6)["worker:0"].value == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ({"damage": "flip_bit"}, "ckpt-2.data-0"),
        ({"damage": "remove", "file": "*.index"}, "ckpt-2.index"),
        ({"damage": "stale"}, "checkpoint"),
    ],
    ids=["flip_bit", "remove", "stale"],
)
def test_torn_checkpoint_damages_the_newest_file(tmp_path: Path, options: dict[str, str], file: str) -> None:
    """The newest match is changed and the older files are not; the damage is the same for the same seed."""
    seen = []
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        for age, name in enumerate(("ckpt-1.data-0", "ckpt-1.index", "ckpt-2.data-0", "ckpt-2.index")):
            (folder / name).write_bytes(bytes(range(200)))
            os.utime(folder / name, (age + 1, age + 1))
        paths = 'all_model_checkpoint_paths: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-2"\n'
        (folder / "checkpoint").write_text(f'model_checkpoint_path: "ckpt-2"\n{paths}')
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        plan = plan_of(TornCheckpoint(directory=folder, **options, step=3), seed=5)
        run_steps(plan, tmp_path / f"out{attempt}", workers=1)
        after = {path.name: path.read_bytes() for path in folder.iterdir()}
        assert {name for name in before if before[name] != after.get(name)} == {file}
        seen.append(events(tmp_path / f"out{attempt}", "fired")[0]["effect"])
        if file == "checkpoint":
            assert after[file].startswith(b'model_checkpoint_path: "ckpt-1"')
            assert b"ckpt-2" not in after[file]
    # The seed of the damage comes from what the fault says, here a directory of another name.
    assert seen[0]["file"] == seen[1]["file"] == file


def _log(count: int) -> None:
    """Write a line in each step, and before it when that is."""
    agent = own_agent()
    for number in range(1, count + 1):
        os.write(1, f"{number} {time.monotonic()}\nloss at {number}\n".encode())
        agent.step(number)
        threading.Event().wait(0.02)


def test_a_line_of_a_log_and_a_time_are_triggers(tmp_path: Path) -> None:
    """The first line that matches, and a time after the start."""
    plan = plan_of(
        Pause("worker:0", log="loss at 5$", duration="30ms"), Pause("worker:1", time="150ms", duration="30ms")
    )
    result_of(bare(Topology(worker=2), faults=plan, out=tmp_path), _log, 30)
    fired = {event["tasks"][0]: event for event in events(tmp_path, "fired")}
    start = events(tmp_path, "start")[0]["t"]
    (log,) = tmp_path.rglob("worker-0.log")
    # By the program's own clock: it is stopped right after its line, so that its step is heard of later.
    (written,) = re.findall(r"^5 ([\d.]+)$", log.read_text(), re.MULTILINE)
    assert fired["worker:0"]["t"] >= float(written)
    # The time counts from the beginning of the run; the event is written a little later.
    assert 0.1 <= fired["worker:1"]["t"] - start < 15


def test_faults_at_one_point_strike_in_the_order_of_the_plan(tmp_path: Path) -> None:
    """Nobody goes on before the last of them was applied."""
    plan = plan_of(*[Pause(f"worker:{task}", of="worker:*", step=3, duration="20ms") for task in (1, 0, 1)])
    run_steps(plan, tmp_path)
    assert [event["fault"] for event in events(tmp_path, "fired")] == ["pause-1", "pause-2", "pause-3"]


def test_faults_are_reported_in_the_order_in_which_they_strike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the thread of the second may be late with its event: the third does not strike before."""
    third = threading.Event()
    write = Strike._write

    def late(self: Strike, event: str, **fields: object) -> None:
        if event == "fired" and self.name == "pause-2":
            third.wait(0.3)
        if event == "fired" and self.name == "pause-3":
            third.set()
        write(self, event, **fields)

    monkeypatch.setattr(Strike, "_write", late)
    test_faults_at_one_point_strike_in_the_order_of_the_plan(tmp_path)


@pytest.mark.parametrize("trigger", [{"time": "100ms"}, {"log": "loss at 5$"}], ids=["time", "log"])
def test_what_begins_at_no_step_may_end_at_one(trigger: dict[str, str], tmp_path: Path) -> None:
    """The end is exact although the beginning is not."""
    plan = plan_of(Pause("worker:1", of="worker:0", **trigger, until=20))
    result_of(bare(Topology(worker=2), faults=plan, out=tmp_path), _log, 30)
    seen = {event["number"]: event["t"] for event in events(tmp_path, "step") if event["task"] == "worker:0"}
    (undone,) = events(tmp_path, "undone")
    assert seen[20] <= undone["t"] <= seen[21]


def test_a_fault_whose_end_comes_before_its_beginning_holds_nobody(tmp_path: Path) -> None:
    """The task that has come to the step of the end goes on, and the fault has not fired."""
    with pytest.raises(RunFailed, match="did not fire: its trigger never came") as caught:
        run_steps(plan_of(Pause("worker:1", of="worker:0", log="never", until=3)), tmp_path, count=5)
    assert caught.value.result["worker:0"].steps == 5


def test_faults_are_undone_when_the_run_fails(tmp_path: Path) -> None:
    """Another task's failure ends the run: the stopped one is continued, and nothing is left."""

    def body() -> None:
        agent = own_agent()
        agent.step(1)
        if agent.spec.task == "worker:0":
            agent.gate("step:2")
            raise ValueError("own failure")
        threading.Event().wait(20)

    plan = plan_of(Pause("worker:1", of="worker:0", step=1))
    with bare(Topology(worker=2), faults=plan, out=tmp_path) as cluster:
        with pytest.raises(RunFailed, match="own failure"):
            cluster.run(body)
        pid = cluster.task("worker:1").pid
    assert pid is not None
    assert has_ended(pid)
    assert _effects(tmp_path)[1] == {"continued": ["worker:1"]}


def test_faults_are_undone_on_ctrl_c(tmp_path: Path) -> None:
    """KeyboardInterrupt in the parent passes through, after the undo."""
    plan = plan_of(Pause("worker:1", step=1))
    cluster = bare(Topology(worker=2), faults=plan, out=tmp_path)
    with cluster, pytest.raises(KeyboardInterrupt):
        _interrupted(cluster)
    assert _effects(tmp_path)[1] == {"continued": ["worker:1"]}


def _interrupted(cluster: Cluster) -> None:
    """Press Ctrl-C once the fault has struck."""
    with cluster.start(steps, 3, 0.0) as run:
        journal = run.directory / "journal.jsonl"
        run.wait(lambda: '"fired"' in journal.read_text(), "the fault to fire", 10)
        raise KeyboardInterrupt


def test_healing_undoes_everything_and_demands_progress(tmp_path: Path) -> None:
    """After the time of chaos the paused task is continued and finishes; it is paused however late it is up."""
    result = run_steps(plan_of(Pause("worker:1", time="0s"), heal="1s", progress="10s"), tmp_path)
    assert result["worker:1"].steps == 12
    assert [event["event"] for event in events(tmp_path, "undone", "healed")] == ["undone", "healed"]


def test_a_plan_that_heals_before_a_trigger_comes_says_so(tmp_path: Path) -> None:
    """The step comes long after the time of chaos, as on a busy machine; the plan is to blame, and not the program."""
    plan = plan_of(Pause("worker:1", step=2), heal="10ms", progress="10s")
    with pytest.raises(RunFailed, match=r"FaultNotFired.*the plan healed before its trigger came"):
        run_steps(plan, tmp_path, count=2, seconds=0.2)


def test_a_plan_is_saved_as_it_was_carried_out(tmp_path: Path) -> None:
    """The run's directory has the expanded plan, which is the same when it is expanded again."""
    plan = plan_of(Kill("worker:?", step="2..6"), seed=3)
    run_steps(plan, tmp_path, workers=3)
    saved = FaultPlan.load(tmp_path / "0" / "plan.json")
    assert saved == plan.expand(Topology(worker=3))
    assert saved.expand(Topology(worker=3)) == saved
    began = time.monotonic()
    run_steps(saved, tmp_path / "again", workers=3)
    assert events(tmp_path / "again", "fired")[0]["trigger"] == events(tmp_path, "fired")[0]["trigger"]
    assert time.monotonic() - began < 20
