"""What can never strike is a usage error before anything starts; junk is read as a plan or refused as one."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator import Cluster, FaultPlan, Link, Topology, UsageError, units
from simulator.faults import all_kinds
from simulator.faults.values import UNITS

WORKERS = Topology(worker=2)
KILL = "kind=kill,task=worker:1"
LINK = "src=worker:0,dst=worker:1"

# No deadline: on a busy machine one example may take longer than any that would be asserted.
junk = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{KILL},phase=after_save,nth=0", "nth=0 is out of range; give 1 or more"),
        (f"{KILL},{LINK},bytes=0B", "bytes=0B is out of range; give 1B or more"),
        (f"{KILL},{LINK},connections=0", "connections=0 is out of range; give 1 or more"),
        (f"{KILL},{LINK},connections=0..3", "connections=0 is out of range"),
        ("kind=bitflip,task=worker:1,target=variable,step=0", "no variable before the function is called"),
        (f"{KILL},log=(", r"log='\(' is not a regular expression"),
        (f"{KILL},log=", "which every line matches"),
        (f"{KILL},nth=2,step=3", "nth=2 counts how often a phase is reached|nth=2 says which time"),
        (f"{KILL},step=3,{LINK}", "the trigger is step"),
        (f"{KILL},at=save:data-writen", "did you mean save:data-written"),
        (f"{KILL},at=collective:0", "nth=0 is out of range; give 1 or more"),
        (f"{KILL},at=save:{'9' * 5000}", "is unknown"),
        (f"{KILL},at=save:", "did you mean save[?] give one of"),
        (f"{KILL},at=save,step=2", "has step, at; triggers are step, at, bytes"),
        (f"{KILL},at=save,nth=2", "leave phase= and nth= out"),
        (f"{KILL},time=1s,of=worker:0", "the trigger is time; leave it out"),
        ("kind=pause,task=worker:1,of=worker:0,step=1,until=0", "until=0 is out of range"),
        ("kind=pause,task=worker:1,of=worker:0,step=1,until=3,duration=1s", "two ends"),
        ("kind=pause,task=worker:1,step=1,duration=0s", "duration=0s is out of range; give more than 0s"),
        (f"kind=delay,{LINK},step=1,delay=999999h", "'999999h' is longer than any run; give 168h or less"),
        (f"kind=delay,{LINK},step=1,delay=0ms", "delay=0ms is out of range"),
        (f"kind=delay,{LINK},step=1,delay={'9' * 5000}h", "longer than any run"),
        (f"kind=jitter,{LINK},step=1,jitter=0ms", "jitter=0ms is out of range"),
        (f"kind=rate,{LINK},step=1,rate=99999999999999GB/s", "more than any link has"),
        (f"kind=flap,{LINK},step=1,down=100ms", "down=100ms is out of range; give 0.3s or more"),
        (f"kind=flap,{LINK},step=1,up=0s", "up=0s is out of range"),
        ("kind=slow,task=worker:1,step=1,factor=nan", "factor=nan is out of range|is not a number from 0"),
        ("kind=slow,task=worker:1,step=1,factor=inf", "factor=inf is out of range; give more than 1"),
        ("kind=slow,task=worker:1,step=1,factor=2,period=0s", "period=0s is out of range"),
        ("kind=slow,task=worker:1,step=1,per_step=0s", "per_step=0s is out of range"),
        ("kind=late_start,task=worker:1,duration=0s", "duration=0s is out of range"),
        ("kind=crash,task=worker:1,step=1,how=exit,code=1..300", "code=300 is out of range; give 1 to 255"),
        ("kind=crash,task=worker:1,step=1,code=7", "this is how=exception"),
        ("kind=oom,task=worker:1,step=1,duration=1s", "add fatal=false"),
        (f"kind=disk_full,task=worker:1,step=1,size={'9' * 40}GB", "more than any run has"),
        (f"{KILL},step={'9' * 5000}", "is not a count|out of range"),
        ("kind=crash_loop,task=worker:1,step=1,times=1..3", "give 2 or more"),
    ],
)
def test_a_fault_that_can_never_strike_is_refused_when_it_is_read(text: str, message: str) -> None:
    """One sentence that names the key, what was given, and what is accepted."""
    with pytest.raises(UsageError, match=message) as raised:
        FaultPlan.parse_fault(text)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value).replace(text, "")) < 300


@pytest.mark.parametrize(
    "text",
    [
        f"{KILL},step=0",
        f"{KILL},phase=after_save,nth=1..2",
        f"{KILL},{LINK},bytes=1B",
        f"{KILL},time=0s,restart=0s",
        f"kind=jitter,{LINK},step=1,jitter=1ms,delay=0ms",
        "kind=slow,task=worker:1,step=1,factor=1.01",
        "kind=preempt,task=worker:1,step=1,grace=0s",
        "kind=oom,task=worker:1,step=1,size=0B",
        f"kind=stall,{LINK},step=1,of=worker:0,until=3",
        r"kind=kill,task=worker:1,log=epoch \([0-9]\)",
    ],
)
def test_what_can_strike_is_accepted_at_the_edge(text: str) -> None:
    """The negative control of the test above: bounds are not too narrow."""
    fault = FaultPlan.parse_fault(text)
    assert FaultPlan(faults=(fault,)).expand(WORKERS).faults[0].kind == fault.kind


WHOLE = {
    "task": "worker:1", "src": "worker:0", "dst": "worker:1", "directory": "x", "delay": "1ms", "jitter": "1ms",
    "rate": "1MB/s", "loss": "1%",
}  # fmt: skip
ENDINGS = {"count": "", "number": "", "duration": "s", "size": "B", "rate": "B/s", "share": "%"}


@pytest.mark.parametrize("kind", sorted(all_kinds()))
def test_every_number_of_every_kind_has_bounds(kind: str) -> None:
    """Also of a kind that does not exist yet: what is negative, no number or beyond all bounds is refused."""
    table = {"kind": kind, **{key: WHOLE[key] for key in all_kinds()[kind].needed}}
    keys = [field.encode_name for field in msgspec.structs.fields(all_kinds()[kind]) if field.encode_name in UNITS]
    for key in keys:
        end = ENDINGS[UNITS[key].unit]
        words = (f"-1{end}", f"nan{end}", f"inf{end}", f"{'9' * 30}{end}", f"1{end}..", "x", "")
        others: tuple[object, ...] = (-1, True, [], {})
        for value in (*words, *others):
            with pytest.raises(UsageError, match=rf"\b{key}\b"):
                FaultPlan.from_mapping({"fault": [{**table, "step": 1, key: value}]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delay=999999h", "longer than any run"),
        ("stall=0s", "stall=0s is over before it begins"),
        ("blackhole=0ms", "is over before it begins"),
        ("hold,after_connections=99999999999999999999", "is not a whole number from 1"),
        ("hold,after_bytes=99999999999999999999GB", "more than any run has"),
        ("rate=0.1B/s", "above zero"),
        ("rate=99999999999GB/s", "more than any link has"),
    ],
)
def test_a_link_that_can_have_no_effect_is_refused_before_anything_starts(text: str, message: str) -> None:
    """Of a link as of a fault; a flag without a time is for the whole run."""
    with pytest.raises(UsageError, match=message):
        Cluster(WORKERS, links=[Link.parse(f"{LINK},{text}")])


def test_a_link_of_no_delay_ends_what_an_earlier_link_says() -> None:
    """So it is no mistake."""
    Cluster(WORKERS, links=[Link.parse("src=*,dst=*,delay=5ms"), Link.parse(f"{LINK},delay=0ms")])


@pytest.mark.parametrize(
    ("text", "message"),
    [("time=30s", "time=30s never comes: the run has a timeout"), ("step=1,restart=1m", "restart=1m")],
)
def test_what_comes_after_the_end_of_the_run_is_refused(text: str, message: str) -> None:
    """The cluster knows its timeout; one without a timeout waits for as long as it takes."""
    plan = FaultPlan(faults=(FaultPlan.parse_fault(f"{KILL},{text}"),))
    with pytest.raises(UsageError, match=message):
        Cluster(WORKERS, timeout=5, faults=plan)
    Cluster(WORKERS, timeout=float("inf"), faults=plan)


def test_what_comes_after_the_plan_has_healed_is_refused() -> None:
    """All is undone by then. A plan that heals at once does nothing, and nobody gets on in no time."""
    fault = FaultPlan.parse_fault(f"{KILL},time=20s")
    with pytest.raises(UsageError, match="never comes: the plan heals after 10s"):
        FaultPlan(faults=(fault,), heal="10s").check(WORKERS)
    for key in ("heal", "progress"):
        with pytest.raises(UsageError, match=f"{key}=0s leaves no time"):
            FaultPlan.from_mapping({key: "0s"})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e300, "5", None])
def test_a_timeout_is_a_number_of_seconds(seconds: Any) -> None:
    """What a wait in the kernel cannot take is refused, too."""
    with pytest.raises(UsageError, match="timeout="):
        Cluster(WORKERS, timeout=seconds)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "list.toml",
            "[[fault]]\nkind = ['kill']\ntask = 'worker:1'\nstep = 1",
            r"kind \['kill'\] is unknown; kinds are",
        ),
        ("deep.toml", f"x = {'[' * 9000}{']' * 9000}", "nested too deeply"),
        ("deep.json", "[" * 200_000, "nested too deeply"),
        ("seed.json", '{"seed": 99999999999999999999}', "seed=99999999999999999999 is out of range"),
        ("digits.json", f'{{"seed": {"9" * 5000}}}', "digits.json"),
        ("date.toml", "[[fault]]\nkind = 'kill'\ntask = 'worker:1'\ntime = 2020-01-01", "time"),
        ("bytes.toml", "\udcff", "utf-8"),
    ],
)
def test_a_plan_file_that_is_none_is_a_usage_error_that_names_it(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    """Whatever is in it."""
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=message) as raised:
        FaultPlan.load(tmp_path / name)
    assert str(tmp_path / name) in str(raised.value)


_words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["worker:1", "worker:*", "*", "worker:?", "step", "1..", "..", "1..3", "9" * 400, "-0", "nan", "inf"]
    ),
    st.builds("{}{}".format, st.floats(), st.sampled_from(["s", "ms", "h", "B", "GB", "GB/s", "%", ""])),
    st.builds("{}{}".format, st.integers(0), st.sampled_from(["s", "us", "h", "B", "GiB", "Gbit/s", "%", ""])),
)
_scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-(10**400), 10**400), st.floats(), _words)
_values = st.recursive(_scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3))
_keys = st.one_of(
    _words,
    st.sampled_from(sorted({"task", "src", "dst", "of", "log", "phase", "id", "until", "mode", "directory", *UNITS})),
)
_fault_tables = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries(
        {"kind": st.sampled_from(sorted(all_kinds())) | _values},
        optional={"task": st.just("worker:1"), "src": st.just("worker:0"), "dst": st.just("worker:1"), "step": _values},
    ),
    st.dictionaries(_keys, _values, max_size=3),
)


@junk
@given(_fault_tables)
def test_any_table_is_a_fault_or_a_usage_error(table: dict[str, Any]) -> None:
    """From a file; and what is read can be expanded, or is refused then."""
    with contextlib.suppress(UsageError):
        plan = FaultPlan.from_mapping({"fault": [table]})
        expanded = plan.expand(WORKERS)
        assert expanded.expand(WORKERS) == expanded
        Cluster(WORKERS, faults=plan, timeout=60)


@junk
@given(st.dictionaries(_keys | st.sampled_from(["seed", "topology", "link", "fault", "heal", "progress"]), _values))
def test_any_file_is_a_plan_or_a_usage_error(table: dict[str, Any]) -> None:
    """Whatever its tables are."""
    with contextlib.suppress(UsageError):
        FaultPlan.from_mapping(table).expand(WORKERS)


@junk
@given(st.lists(st.tuples(_keys | st.just("kind"), _words | st.sampled_from(sorted(all_kinds())))))
def test_any_text_is_a_fault_a_link_or_a_usage_error(items: list[tuple[str, str]]) -> None:
    """From the command line."""
    text = ",".join(f"{key}={value}" for key, value in items)
    for read in (FaultPlan.parse_fault, Link.parse):
        with contextlib.suppress(UsageError):
            read(text)


@junk
@given(st.dictionaries(st.sampled_from(list(Link.__dataclass_fields__)) | _words, _values))
def test_any_table_is_a_link_or_a_usage_error(table: dict[str, Any]) -> None:
    """From a file, and a cluster takes it or refuses it."""
    with contextlib.suppress(UsageError):
        Cluster(WORKERS, links=[Link.from_mapping({"src": "worker:0", "dst": "worker:1", **table})])


@junk
@given(_values)
def test_units_read_a_number_or_refuse_it(value: object) -> None:
    """And what they read is finite, and not below zero."""
    for parse in (units.parse_duration, units.parse_size, units.parse_rate, units.parse_share):
        with contextlib.suppress(UsageError):
            assert 0 <= parse(value) <= 2**50


@junk
@given(st.text(), st.sampled_from(["plan.toml", "plan.json"]))
def test_any_text_of_a_file_is_a_plan_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, name: str
) -> None:
    """Also what is no TOML and no JSON."""
    file = tmp_path_factory.mktemp("plan") / name
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with contextlib.suppress(UsageError):
        json.dumps(FaultPlan.load(file).to_mapping())


def test_a_step_that_nobody_announces_is_refused_in_words() -> None:
    """Programs with parameter servers and no chief: Lockstep knows no task that would count steps."""
    with pytest.raises(UsageError, match="worker:0 runs a server and announces no steps; let a time trigger it"):
        FaultPlan(faults=(FaultPlan.parse_fault(f"{KILL},of=worker:*,step=3"),)).expand(Topology(worker=2, ps=1))
