"""Timelines: made-up journals read, judged, and written as text, data, pages and traces."""

from __future__ import annotations

import json
import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.timeline import (
    Timeline,
    as_data,
    lines,
    read_timelines,
    timeline_of,
    timeline_page,
    timeline_svg,
    trace_json,
)
from harness.report.timeline.drawing import draw, nice_step
from simulator import UsageError
from tests._present import present
from tests.harness._journals import DELAY, KILL, Script, killed

SVG = "{http://www.w3.org/2000/svg}"


def _many(tasks: int, steps: int) -> Timeline:
    script = Script(*(f"worker:{number}" for number in range(tasks)))
    for number in range(tasks):
        script.steps(f"worker:{number}", [1 + step * 0.01 for step in range(steps)])
    return timeline_of(script.events)


def test_lives_follow_the_incarnations() -> None:
    """Each process is a life with its own steps, begin and end; times count from the start of the run."""
    timeline = timeline_of(killed().events, [KILL])
    first, second = timeline.lives_of("worker:1")
    assert (first.begin, round(first.end or 0, 3), first.ended) == (0.0, 2.1, "SIGKILL, asked for")
    assert [(number, round(at, 6)) for number, at in first.steps] == [(1, 1.0), (2, 2.0)]
    assert (round(second.begin, 3), second.reason, second.exit) == (3.0, "policy job, 1 of 1", 0)
    assert timeline.wall == pytest.approx(5000.001)
    assert timeline.seconds == pytest.approx(5.1)


def test_detection_and_recovery_of_a_death() -> None:
    """From the gate to the first failure of a survivor, and to the first step of the new process of the dead task."""
    fault = timeline_of(killed().events, [KILL]).faults[0]
    assert fault.struck == pytest.approx(2.0)
    assert fault.detection_seconds == pytest.approx(0.5)
    assert fault.detected is not None
    assert (fault.detected.task, fault.detected.what) == ("worker:0", "UnavailableError: gone")
    assert fault.recovery_seconds == pytest.approx(2.1)
    assert fault.recovered is not None
    assert (fault.recovered.task, fault.recovered.what) == ("worker:1", "step 1, incarnation 1")


def test_a_failure_is_the_deaths_and_not_the_delays() -> None:
    """Of a delay that is in force and a kill before it, the survivor's failure belongs to the kill."""
    script = killed()
    script.fired(2.3, DELAY).undone(2.9, DELAY)
    delay, kill = timeline_of(script.events, [DELAY, KILL]).faults
    assert delay.detected is None
    assert kill.detected is not None
    assert present(delay.recovered).task == "worker:0"


def test_what_a_fault_does_to_its_own_task_is_no_detection() -> None:
    """The failure of the killed task itself, unplanned where a policy restarts it, is nobody's detection."""
    script = Script("worker:0", "worker:1").fired(0.1, DELAY).undone(0.5, DELAY)
    script.fails(2.1, "worker:1", "Signal").exit(2.1, "worker:1", -9)
    script.fired(2.2, KILL, ended={"worker:1": "SIGKILL"}).undone(2.3, KILL)
    delay, kill = timeline_of(script.events, [DELAY, KILL]).faults
    assert (delay.detected, kill.detected, kill.recovered) == (None, None, None)
    assert kill.struck == pytest.approx(2.1)


def test_a_planned_failure_or_one_of_a_later_process_is_no_detection() -> None:
    """Only a process that lived when the fault struck, and whose failure nobody asked for, has detected it."""
    script = Script("worker:0", "worker:1").fired(1.0, DELAY).fails(1.5, "worker:0", planned=True)
    script.add(2.0, "restart", task="worker:1", incarnation=1, reason="asked")
    script.add(2.5, "error", task="worker:1", incarnation=1, kind="Exit", message="", at=2.5, planned=False)
    assert timeline_of(script.events, [DELAY]).faults[0].detected is None


def test_a_server_recovers_with_the_next_step_of_the_coordinator() -> None:
    """A ps announces no steps, so the chief's first step after its restart counts."""
    fault = {"id": "k", "kind": "kill", "step": 1, "of": ["chief:0"], "task": ["ps:0"]}
    script = Script("chief:0", "ps:0").steps("chief:0", [1.0, 1.5, 3.0])
    script.exit(1.1, "ps:0", -9, asked=True).fired(1.2, fault, ended={"ps:0": "SIGKILL"})
    script.add(2.0, "restart", task="ps:0", incarnation=1, reason="asked").undone(2.1, fault)
    recovered = present(timeline_of(script.events, [fault]).faults[0].recovered)
    assert (recovered.task, recovered.what) == ("chief:0", "step 3")
    assert recovered.at == pytest.approx(3.0)


def test_a_program_without_steps_has_recovered_when_all_that_had_died_is_back() -> None:
    """Nothing else is known of it; as long as one is missing it has not."""
    fault = {"id": "k", "kind": "kill", "time": "1s", "task": ["worker:0", "worker:1"]}
    script = Script("worker:0", "worker:1")
    for task in fault["task"]:
        script.exit(1.1, task, -9, asked=True)
    script.fired(1.2, fault, ended=dict.fromkeys(fault["task"], "SIGKILL"))
    script.add(2.0, "restart", task="worker:0", incarnation=1, reason="asked")
    assert timeline_of(script.events, [fault]).faults[0].recovered is None
    script.add(2.5, "restart", task="worker:1", incarnation=1, reason="asked").undone(2.6, fault)
    recovered = present(timeline_of(script.events, [fault]).faults[0].recovered)
    assert (recovered.task, recovered.what) == ("worker:1", "started again, incarnation 1")
    assert recovered.at == pytest.approx(2.5)


def test_a_crash_loop_recovers_after_its_last_death() -> None:
    """A step between two deaths is no recovery."""
    fault = {**KILL, "kind": "crash_loop"}
    script = Script("worker:0", "worker:1").exit(2.0, "worker:1", -9, asked=True)
    script.add(2.1, "restart", task="worker:1", incarnation=1, reason="asked").steps("worker:1", [2.5], 1)
    script.exit(2.6, "worker:1", -9, 1, asked=True).fired(2.7, fault, ended={"worker:1": "SIGKILL"})
    script.add(2.8, "restart", task="worker:1", incarnation=2, reason="asked").undone(2.9, fault)
    script.steps("worker:1", [3.5], 2)
    recovered = present(timeline_of(script.events, [fault]).faults[0].recovered)
    assert recovered.at == pytest.approx(3.5)


def test_a_fault_that_never_fired_says_so() -> None:
    """It has no times, and a problem in words."""
    timeline = timeline_of(Script("worker:0").events, [KILL])
    assert timeline.faults[0].struck is None
    assert "kill-1  kill  step=2 of worker:1  -" in "\n".join(lines(timeline))
    assert "did not fire: its trigger never came" in "\n".join(lines(timeline))


def test_another_counter_begins_anew() -> None:
    """When a better way to count comes up, the steps counted so far are not the program's."""
    script = Script("worker:0").steps("worker:0", [1.0, 2.0])
    script.add(3.0, "counting", task="worker:0", incarnation=0, by="Keras fit", at=3.0).steps("worker:0", [4.0])
    life = timeline_of(script.events).lives[0]
    assert ([number for number, _ in life.steps], life.counted_by) == ([1], "Keras fit")


def test_conditions_and_saves_and_links() -> None:
    """A condition lasts from set to removed, or to the end; gates of checkpoints are marks; gates of steps are not."""
    script = Script("worker:0").add(1.0, "link_set", rule=1, link="src=*,dst=*,hold=True")
    script.add(2.0, "link_set", rule=2, link="src=a,dst=b,delay=1ms").add(3.0, "link_removed", rule=1, link="")
    script.add(3.5, "gate", task="worker:0", incarnation=0, gate="phase:after_save:2", at=3.4)
    script.add(3.6, "gate", task="worker:0", incarnation=0, gate="step:2", at=3.6)
    script.add(4.0, "link", src="worker:0", dst="worker:1", bytes=7, connections=1, refused=2)
    timeline = timeline_of(script.events)
    assert [(each.begin, each.end) for each in timeline.conditions] == [(1.0, 3.0), (2.0, None)]
    assert [(mark.what, round(mark.at, 3)) for mark in timeline.marks] == [("after_save", 3.4)]
    assert "worker:0 -> worker:1: 7 bytes, 1 connections, 2 refused" in "\n".join(lines(timeline))


def _saving() -> Script:
    """One task that restores nothing, saves, saves asynchronously, fails, and dies in a save."""
    script = Script("worker:0").add(0.1, "hello", task="worker:0", incarnation=0, pid=1)
    script.saved(0.5, "worker:0", None, restores=True).steps("worker:0", [1.0, 2.0])
    script.saved(2.1, "worker:0", "ckpt-1", 0.25, bytes=1000, step=2)
    script.saved(3.0, "worker:0", "ckpt-2", 0.1, asynchronous="call")
    script.saved(3.05, "worker:0", "ckpt-2", 0.5, bytes=1000, asynchronous="thread")
    script.saved(3.2, "worker:0", "ckpt-0", 0.1, restores=True)
    script.saved(4.0, "worker:0", "ckpt-3", 0.1, failed="OutOfRangeError")
    script.saved(4.5, "worker:0", "ckpt-3", 0.5, unfinished=True)
    return script.exit(5.0, "worker:0", -9)


def test_saves_and_restores_with_their_durations() -> None:
    """They are in the data and counted in the text; an asynchronous one counts once."""
    timeline = timeline_of(_saving().events)
    first, second, *_ = timeline.saves_of("worker:0")
    assert (first.restores, first.path, second.restores, second.step) == (True, None, False, 2)
    assert (round(second.begin, 6), round(second.end, 6)) == (2.1, 2.35)
    assert second.told == "saved ckpt-1, tf.train.CheckpointManager.save, 0.250 s, 1000 bytes"
    assert timeline.saves_of("worker:0", incarnation=1) == timeline.saves_of("worker:1") == []
    assert "2 steps, 4 saves (1 failed, 1 cut off), 2 restores (1 of nothing), SIGKILL" in "\n".join(lines(timeline))
    assert [save["bytes"] for save in as_data(timeline)["saves"]] == [None, 1000, None, 1000, None, None, None]


def test_a_run_without_saves_says_nothing_of_them() -> None:
    """Its text is what it was."""
    assert "save" not in "\n".join(lines(timeline_of(killed().events)))


def test_saves_are_drawn_on_the_lane_of_their_task() -> None:
    """Bars as long as the saves are, restores and failures in another colour, the details under the pointer."""
    timeline = timeline_of(_saving().events)
    shapes = [shape for shape in draw(timeline).shapes if shape.style in ("saved", "restored", "writing", "unsaved")]
    assert [shape.style for shape in shapes] == ["restored", "saved", "saved", "writing", "restored", *["unsaved"] * 2]
    widths = [shape.width for shape in shapes]
    assert widths[3] == pytest.approx(2 * widths[1], abs=0.2)
    assert len({shape.y for shape in shapes}) == 1
    assert shapes[-1].title.startswith("worker:0: save cut off: ckpt-3, tf.train.CheckpointManager.save, 0.500 s")
    svg = timeline_svg(timeline)
    assert {style for style in ("saved", "restored", "writing", "unsaved") if f".timeline .{style}" not in svg} == set()


def test_many_saves_in_one_place_are_drawn_once() -> None:
    """Ten thousand short saves do not make ten thousand shapes."""
    script = Script("worker:0").add(100.0, "exit", task="worker:0", incarnation=0, code=0, signal=None, asked=False)
    for number in range(10_000):
        script.saved(1 + number * 0.001, "worker:0", f"ckpt-{number}", 0.0005)
    shapes = [shape for shape in draw(timeline_of(script.events)).shapes if shape.style == "saved"]
    assert 0 < len(shapes) < 1000
    assert "more" in shapes[5].title


def test_every_journal_of_a_directory_is_read_in_order(tmp_path: Path) -> None:
    """Those of `run`, of `Cluster(out=)` and of an interrupted `verify`, whose first part comes first."""
    for place, wall in (("run/0", 9.0), ("interrupted/run/0", 8.0), ("1", 7.0)):
        script = Script("worker:0")
        script.events[0]["wall"] = wall
        script.save(tmp_path / place)
    assert [timeline.name for timeline in read_timelines(tmp_path)] == ["1", "interrupted/run/0", "run/0"]


def test_what_is_no_journal_is_a_usage_error(tmp_path: Path) -> None:
    """The message names the directory."""
    with pytest.raises(UsageError, match="holds no journal"):
        read_timelines(tmp_path)
    (tmp_path / "journal.jsonl").write_text('{"t": 1, "event": "hello"}\n')
    with pytest.raises(UsageError, match="does not say how the run started"):
        read_timelines(tmp_path)
    killed().save(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    with pytest.raises(UsageError, match=r"plan\.json is damaged"):
        read_timelines(tmp_path)


def test_a_journal_cut_short_is_still_a_timeline(tmp_path: Path) -> None:
    """Of a run whose Lockstep was killed: the last line is half, and nobody's end was seen."""
    Script("worker:0").steps("worker:0", [1.0]).save(tmp_path)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"t": 1003.0, "event": "st')
    timeline = read_timelines(tmp_path)[0]
    assert timeline.lives[0].ended == "end not seen"
    assert ET.fromstring(timeline_svg(timeline)) is not None


def test_data_has_detection_and_recovery() -> None:
    """What a script wants to plot needs no arithmetic."""
    fault = json.loads(json.dumps(as_data(timeline_of(killed().events, [KILL]))))["faults"][0]
    assert fault["detection_seconds"] == pytest.approx(0.5)
    assert fault["recovery_seconds"] == pytest.approx(2.1)


def test_the_page_is_well_formed_and_needs_nothing_else() -> None:
    """XML, with styles for light and dark, without a script, a link or an address to load from."""
    page = timeline_page([timeline_of(killed().events, [KILL]), timeline_of(Script("worker:0").events)])
    ET.fromstring(page)
    assert "prefers-color-scheme: dark" in page
    assert re.findall(r"<script|<link|src=\"|url\(|@import", page) == []
    assert set(re.findall(r"https?://[^\"\s]+", page)) == {"http://www.w3.org/2000/svg"}
    assert "worker:0 failed after 0.50 s" in page


def test_words_of_programs_do_not_become_markup() -> None:
    """An error message with angle brackets is text."""
    script = Script("worker:0").fails(1.0, "worker:0", "<script>alert(1)</script>").exit(1.1, "worker:0", 1)
    page = timeline_page([timeline_of(script.events)])
    ET.fromstring(page)
    assert "<script" not in page


def test_every_shape_style_has_a_rule() -> None:
    """A shape without a rule would be black in the dark."""
    svg = timeline_svg(timeline_of(killed().events, [KILL]))
    used = {element.get("class") for element in ET.fromstring(svg).iter() if element.get("class")} - {"timeline", None}
    used -= {"name", "label"}  # words, which have the colour of all text
    assert len(used) > 8
    assert {style for style in used if f".timeline .{style}" not in svg} == set()


def test_eight_tasks_with_a_thousand_steps_stay_readable() -> None:
    """Ticks stand two pixels apart, numbers do not touch, and the page stays below 2 MB."""
    timeline = _many(8, 1000)
    drawing = draw(timeline)
    assert drawing.width > 2000
    ticks = next(shape for shape in drawing.shapes if shape.style == "step")
    assert len(set(re.findall(r"M([\d.]+)", ticks.d))) == 1000
    first = [shape for shape in drawing.shapes if shape.style == "number"]
    first = [shape for shape in first if shape.y == first[0].y]
    assert first[-1].words == "1000"
    assert min(later.x - shape.x for shape, later in pairwise(first)) >= 24
    assert len(timeline_page([timeline])) < 2_000_000


def test_hover_titles_name_the_step() -> None:
    """The pointer over a step of a short run says which one it is and when."""
    svg = ET.fromstring(timeline_svg(timeline_of(killed().events, [KILL])))
    titles = {title.text for title in svg.iter(f"{SVG}title")}
    assert "worker:1 step 2, at 2.000 s" in titles
    assert "kill-1 struck at 2.000 s" in titles


@given(st.floats(1e-3, 1e6))
def test_nice_steps(least: float) -> None:
    """Not below what is asked for, at most 2.5 times as much, and 1, 2 or 5 times a power of ten."""
    step = nice_step(least)
    assert least * (1 - 1e-6) <= step <= 2.5 * least * (1 + 1e-6)
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)


TRACE_KEYS = {
    "M": {"ph", "name", "pid", "tid", "args"},
    "X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"},
    "i": {"ph", "name", "cat", "pid", "tid", "ts", "s", "args"},
}


def _check_trace(raw: bytes) -> list[dict[str, Any]]:
    """Check a file against the Trace Event Format: keys, types, and slices of a lane that do not cross."""
    trace = json.loads(raw)
    events: list[dict[str, Any]] = trace["traceEvents"]
    assert trace["displayTimeUnit"] == "ms"
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = {}
    named = {(event["name"], event["pid"]) for event in events if event["ph"] == "M"}
    for event in events:
        assert event.keys() == TRACE_KEYS[event["ph"]]
        assert ("process_name", event["pid"]) in named
        if event["ph"] == "M":
            assert isinstance(event["args"]["name"], str)
        else:
            assert isinstance(event["ts"], int)
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        if event["ph"] == "X":
            assert event["dur"] >= 0
            lanes.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for slices in lanes.values():
        for (_, end), (begin, _) in pairwise(sorted(slices)):
            assert begin >= end
    return events


def test_the_trace_has_a_process_for_each_task() -> None:
    """Lanes for processes, steps and faults; microseconds since the start."""
    events = _check_trace(trace_json([timeline_of(killed().events, [KILL])]))
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert list(names)[:2] == ["worker:0", "worker:1"]
    kill = next(event for event in events if event["name"] == "kill-1 (kill)")
    assert (kill["pid"], kill["ts"], kill["dur"]) == (names["worker:1"], 2_000_000, 1_100_000)
    steps = [event for event in events if event["name"] == "step 2" and event["pid"] == names["worker:0"]]
    assert [(event["ts"], event["dur"]) for event in steps] == [(1_000_000, 1_000_000), (4_000_000, 500_000)]
    instants = {event["name"] for event in events if event["ph"] == "i"}
    assert {"kill-1 detected", "kill-1 recovered", "error"} <= instants


def test_saves_in_the_trace() -> None:
    """Slices of a lane of their own; one that overlaps another, as an asynchronous one does, has a lane besides."""
    events = _check_trace(trace_json([timeline_of(_saving().events)]))
    slices = [event for event in events if event["ph"] == "X" and event["name"].startswith(("save ", "restore "))]
    assert [event["name"] for event in slices][:3] == ["restore nothing", "save ckpt-1", "save ckpt-2"]
    assert slices[1]["args"]["bytes"] == 1000
    assert (slices[1]["ts"], slices[1]["dur"]) == (2_100_000, 250_000)
    assert len({event["tid"] for event in slices}) == 2
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {named[event["tid"]] for event in slices} == {"saves", "more saves"}


def test_runs_of_one_trace_keep_apart() -> None:
    """Two runs have processes of their own and follow each other by the wall clock."""
    first, second = Script("worker:0").steps("worker:0", [1.0]), Script("worker:0").steps("worker:0", [1.0])
    second.events[0]["wall"] += 60.0
    events = _check_trace(trace_json([timeline_of(first.events, name="0"), timeline_of(second.events, name="1")]))
    steps = [event for event in events if event["name"] == "step 1"]
    assert steps[1]["ts"] - steps[0]["ts"] == 60_000_000
    assert steps[0]["pid"] != steps[1]["pid"]


@given(
    st.lists(st.lists(st.floats(0.0, 50.0), max_size=30), min_size=1, max_size=4),
    st.floats(1.0, 1e6),
)
def test_any_steps_can_be_drawn_and_traced(times: list[list[float]], origin: float) -> None:
    """Whatever the times are, the picture is well-formed and the slices of a lane do not cross."""
    script = Script(*(f"worker:{number}" for number in range(len(times))), origin=origin)
    for number, some in enumerate(times):
        script.steps(f"worker:{number}", sorted(some))
    timeline = timeline_of(script.events)
    drawing = draw(timeline)
    assert all(shape.width >= 0 and shape.x <= drawing.width for shape in drawing.shapes)
    ET.fromstring(timeline_svg(timeline))
    _check_trace(trace_json([timeline]))


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 20.0), st.booleans()), max_size=30))
def test_any_saves_can_be_drawn_and_traced(saves: list[tuple[float, float, bool]]) -> None:
    """However they overlap, each has a slice, and the slices of a lane do not cross."""
    script = Script("worker:0")
    for at, seconds, restores in saves:
        script.saved(at, "worker:0", "ckpt", seconds, restores=restores)
    timeline = timeline_of(script.events)
    ET.fromstring(timeline_svg(timeline))
    events = _check_trace(trace_json([timeline]))
    assert sum(event["ph"] == "X" and event["name"].endswith(" ckpt") for event in events) == len(saves)
