"""Fault plans as data: read, checked, drawn from a seed, written, and read again."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import Cluster, FaultPlan, Link, Topology, UsageError
from simulator.faults import Fault, all_kinds, describe_plan
from simulator.faults.kinds.kill import Kill
from simulator.faults.kinds.late_start import LateStart

WORKERS = Topology(worker=3)
KINDS = {
    "bitflip", "crash", "crash_loop", "cut", "delay", "disk_full", "flap", "jitter", "kill", "late_start", "loss",
    "machine_lost", "nan", "oom", "partition", "pause", "preempt", "rate", "restart", "slow", "stall",
    "torn_checkpoint",
}  # fmt: skip

_times = st.sampled_from(["10ms", "1s", "1s..3s", "200ms..2m"])
_steps = st.one_of(st.integers(1, 99), st.sampled_from(["1..9", "10..20", "7..7"]))
_tasks = st.sampled_from(["worker:0", "worker:?", "worker:*", "*", ["worker:0", "worker:2"]])
_triggers = st.one_of(
    st.fixed_dictionaries({"step": _steps}),
    st.fixed_dictionaries({"phase": st.just("after_save"), "nth": st.integers(1, 3)}),
    st.fixed_dictionaries({"time": _times}),
    st.fixed_dictionaries({"log": st.sampled_from(["loss", "a, b", 'quoted "x"'])}),
    st.fixed_dictionaries({"bytes": st.just("1MB..3MB"), "src": st.just("worker:0"), "dst": st.just("worker:1")}),
)
_kinds = st.one_of(
    st.fixed_dictionaries({"kind": st.just("kill"), "task": _tasks}, optional={"restart": _times}),
    st.fixed_dictionaries({"kind": st.just("pause"), "task": _tasks, "duration": _times}),
    st.fixed_dictionaries({"kind": st.just("slow"), "task": _tasks, "factor": st.sampled_from([3.0, "2..4"])}),
    st.fixed_dictionaries({"kind": st.just("torn_checkpoint"), "directory": st.just("x")}),
)
_faults = st.builds(lambda kind, trigger: {**kind, **trigger}, _kinds, _triggers)
_plans = st.builds(
    lambda seed, faults: FaultPlan.from_mapping({"seed": seed, "fault": faults}),
    st.integers(0, 2**64 - 1),
    st.lists(_faults, min_size=1, max_size=4),
)


def test_every_kind_is_there() -> None:
    """The kinds of the design, each with a docstring that says what proves it."""
    assert set(all_kinds()) == KINDS
    assert [name for name, kind in all_kinds().items() if not kind.__doc__] == []


@given(_plans)
def test_a_plan_is_the_same_after_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, plan: FaultPlan
) -> None:
    """TOML and JSON hold the whole plan, also the expanded one."""
    directory = tmp_path_factory.mktemp("plan")
    for one in (plan, plan.expand(WORKERS)):
        (directory / "plan.toml").write_text(one.to_toml())
        (directory / "plan.json").write_text(one.to_json())
        assert FaultPlan.load(directory / "plan.toml").to_mapping() == one.to_mapping()
        assert FaultPlan.load(directory / "plan.json").to_mapping() == one.to_mapping()


@given(_plans)
def test_an_expanded_plan_is_decided_and_expands_to_itself(plan: FaultPlan) -> None:
    """The same seed draws the same, nothing is left open, and expanding again changes nothing."""
    expanded = plan.expand(WORKERS)
    assert expanded == plan.expand(WORKERS)
    assert expanded.expand(WORKERS) == expanded
    again = FaultPlan.from_mapping(json.loads(expanded.to_json()))
    assert again.expand(WORKERS) == expanded
    text = json.dumps(expanded.to_mapping())
    assert ".." not in text
    assert "?" not in text
    assert "*" not in text.replace("*.data-*", "")


@given(_plans, st.data())
def test_a_fault_taken_out_does_not_change_what_the_others_draw(plan: FaultPlan, data: st.DataObject) -> None:
    """Each fault has a random stream of its own, so that a plan can be shrunk."""
    expanded = plan.expand(WORKERS)
    gone = data.draw(st.integers(0, len(plan.faults) - 1))
    said = [fault for place, fault in enumerate(plan.faults) if place != gone]
    if plan.faults[gone] in said:
        return  # two that say the same share a stream, in order
    rest = msgspec.structs.replace(plan, faults=tuple(said)).expand(WORKERS)
    kept = [fault for place, fault in enumerate(expanded.faults) if place != gone]

    def nameless(faults: list[Fault]) -> list[Fault]:
        return [msgspec.structs.replace(fault, id=None) for fault in faults]

    assert nameless(list(rest.faults)) == nameless(kept)


def test_another_seed_draws_something_else() -> None:
    """The negative control of the two above: seeds matter."""
    drawn = {
        (FaultPlan(seed=seed, faults=(Kill(task="worker:?", step="1..1000"),)).expand(WORKERS).faults[0]).step
        for seed in range(8)
    }
    assert len(drawn) > 4


def test_two_faults_that_say_the_same_draw_differently() -> None:
    """Otherwise two equal faults would always strike the same task at the same step."""
    plan = FaultPlan(seed=1, faults=tuple(Kill(task="worker:*", step="1..100000") for _ in range(2)))
    one, other = plan.expand(WORKERS).faults
    assert one.step != other.step


@pytest.mark.parametrize(
    ("at", "phase", "nth"),
    [
        ("save", "before_save", 1),
        ("save:begun:2", "in_save", 2),
        ("save:data-written", "after_data_before_index", 1),
        ("save:done:4", "after_save", 4),
        ("restore", "before_restore", 1),
        ("cluster", "at_barrier", 1),
        ("file-op:12", "file_operation", 12),
        ("collective:2..3", "collective", "2..3"),
    ],
)
def test_a_point_is_a_phase_and_which_time(at: str, phase: str, nth: int | str) -> None:
    """On the command line and in Python; a plan writes the point, from which the same fault is read."""
    fault = Kill(task="worker:1", at=at)
    assert (fault.phase, fault.nth, fault.point) == (phase, nth, at)
    assert FaultPlan.parse_fault(f"kind=kill,task=worker:1,at={at}") == fault
    assert fault == Kill(task="worker:1", phase=phase, nth=nth)
    plan = FaultPlan(faults=(fault,))
    assert plan.to_mapping()["fault"] == [{"kind": "kill", "task": "worker:1", "at": at}]
    assert FaultPlan.from_mapping(plan.to_mapping()) == plan
    assert describe_plan(plan) == f"kill worker:1 at={at}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind=explode,task=worker:1,step=1", "kinds are bitflip, crash,"),
        ("kind=kill,task=worker:1,setp=1", "keys are task, restart, step,"),
        ("kind=kill,step=1", "kill needs task"),
        ("kind=kill,task=worker:1", "triggers are step, at, bytes"),
        ("kind=kill,task=worker:1,step=1,time=1s", "exactly one trigger"),
        ("kind=kill,task=worker:1,step=1,step=2", "step twice"),
        ("kind=kill,task=worker:1,phase=lunch", "phases are before_save"),
        ("kind=kill,task=worker:1,bytes=1MB", "name it with src and dst"),
        ("kind=crash,task=worker:1,how=badly,step=1", "exception, segfault, exit"),
        ("kind=crash,task=worker:1,time=1s", "its trigger is step or phase"),
        ("kind=crash,task=worker:1,step=1,code=0", "give 1 to 255"),
        ("kind=slow,task=worker:1,step=1", "either factor"),
        ("kind=slow,task=worker:1,step=1,factor=1", "more than 1"),
        ("kind=preempt,task=worker:1,step=1,to=everyone", "process or group"),
        ("kind=partition,src=worker:0,dst=worker:1,step=1,mode=maybe", "reset, refuse, blackhole, hold"),
        ("kind=flap,src=worker:0,dst=worker:1,step=1,duration=1s", "takes no duration"),
        ("kind=delay,src=worker:0,dst=worker:1,step=1", "delay needs delay"),
        ("kind=jitter,src=worker:0,dst=worker:1,step=1,jitter=1ms,jitter_kind=odd", "uniform, normal, pareto"),
        ("kind=nan,task=worker:1,step=0", "steps are counted from 1"),
        ("kind=nan,task=worker:1,step=1,target=life", "gradient, reduction, variable"),
        ("kind=torn_checkpoint,directory=x,step=1,damage=bite", "flip_bit, truncate"),
        ("kind=crash_loop,task=worker:1,step=1,times=1", "give 2 or more"),
        ("kind=kill,task=worker:1,step=1,until=3", "does not last"),
        ("kind=late_start,task=worker:1,step=4", "its trigger is step=0"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_is_accepted(text: str, message: str) -> None:
    """An unknown kind, key, trigger or value names those that there are."""
    with pytest.raises(UsageError, match=message):
        FaultPlan.parse_fault(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind=kill,task=worker:9,step=1", "tasks are worker:0"),
        ("kind=kill,task=worker:0-999999999,step=1", "task=worker:0-999999999 reaches beyond worker:"),
        ("kind=kill,task=worker:1,step=9..1", "ends before it begins"),
        ("kind=kill,task=worker:1,step=-1", "not a count"),
        ("kind=pause,task=worker:1,step=1,duration=3", "write a number and us, ms, s"),
        ("kind=kill,task=worker:1,step=1,of=worker:7", "of=worker:7 matches no task"),
        ("kind=crash,task=worker:1,step=1,of=worker:0", "happens inside its tasks"),
        ("kind=pause,task=worker:1,of=worker:0,step=5,until=4", "is not after step=5"),
        ("kind=pause,task=worker:1,step=5,until=9", "stopped until then"),
        ("kind=delay,src=worker:0,dst=ps:0,delay=1ms,time=1s", "ps:0"),
    ],
)
def test_what_the_cluster_cannot_do_is_refused_before_it_starts(text: str, message: str) -> None:
    """The cluster checks a plan when it is made."""
    with pytest.raises(UsageError, match=message):
        Cluster(WORKERS, faults=FaultPlan(faults=(FaultPlan.parse_fault(text),)))


def test_a_server_announces_no_steps_so_the_chief_triggers_its_faults() -> None:
    """With ps tasks the trigger of a worker's fault is the chief's step, also when nothing is said."""
    topology = Topology(chief=1, worker=2, ps=1)
    plan = FaultPlan(faults=(Kill(task="worker:1", step=3),)).expand(topology)
    assert plan.faults[0].of == ("chief:0",)
    with pytest.raises(UsageError, match="announces no steps"):
        FaultPlan(faults=(Kill(task="worker:1", step=3, of="worker:1"),)).check(topology)
    with pytest.raises(UsageError, match="runs a server"):
        FaultPlan(faults=(LateStart(task="ps:0"),)).check(topology)


def test_a_plan_file_is_read_as_it_is_shown(tmp_path: Path) -> None:
    """Seed, topology, links, faults, heal and progress; an unknown table is refused."""
    text = """
        seed = 7
        heal = "20s"
        [topology]
        worker = 3
        [[link]]
        src = "worker:*"
        dst = "worker:0"
        delay = "20ms"
        [[fault]]
        kind = "kill"
        task = ["worker:1", "worker:2"]
        step = 20
        restart = "1s"
    """
    (tmp_path / "plan.toml").write_text(text)
    plan = FaultPlan.load(tmp_path / "plan.toml")
    assert (plan.seed, plan.topology, plan.heal) == (7, WORKERS, "20s")
    assert plan.links == (Link(src="worker:*", dst="worker:0", delay="20ms"),)
    assert plan.expand(WORKERS).faults == (
        Kill(id="kill-1", task=("worker:1", "worker:2"), of=("worker:1", "worker:2"), step=20, restart="1s"),
    )
    (tmp_path / "plan.toml").write_text("sede = 7")
    with pytest.raises(UsageError, match="it has seed, topology"):
        FaultPlan.load(tmp_path / "plan.toml")
    with pytest.raises(UsageError, match=r"nowhere\.toml"):
        FaultPlan.load(tmp_path / "nowhere.toml")
    (tmp_path / "broken.json").write_text("[")
    with pytest.raises(UsageError, match=r"broken\.json"):
        FaultPlan.load(tmp_path / "broken.json")


def test_the_form_of_the_command_line_has_lists_flags_and_commas() -> None:
    """Tasks joined by `+`, a bare flag, and an escaped comma."""
    fault = FaultPlan.parse_fault(r"kind=kill,task=worker:0+worker:2,log=loss\, [0-9]+")
    assert fault == Kill(task=("worker:0", "worker:2"), log="loss, [0-9]+")
    cut = FaultPlan.parse_fault("kind=partition,src=worker:0,dst=worker:1,step=1,one_way")
    assert msgspec.to_builtins(cut)["one_way"] is True


@pytest.mark.parametrize("fault", ["delay,delay=20ms", "jitter,jitter=5ms", "rate,rate=10MB/s"])
def test_a_value_that_must_be_given_is_written_also_where_it_is_the_default(fault: str) -> None:
    """A saved plan can be read again."""
    plan = FaultPlan(faults=(FaultPlan.parse_fault(f"kind={fault},src=worker:0,dst=worker:1,step=1"),))
    assert FaultPlan.from_mapping(plan.to_mapping()) == plan


def test_ids_are_unique() -> None:
    """Reports name faults by their id."""
    with pytest.raises(UsageError, match="two faults have the id x"):
        FaultPlan(faults=(Kill(task="worker:0", step=1, id="x"), Kill(task="worker:1", step=1, id="x")))
