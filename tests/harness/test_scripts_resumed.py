"""Unmodified scripts that are killed and started again: their parts are aligned, judged and doubted."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.errors import Abstained
from harness.evidence.counters import Counters
from harness.evidence.parts import INTERRUPTED, TRACES, Killed, Parts, read_parts
from harness.evidence.reference import Reference
from harness.evidence.restart_files import FoundFiles, note_files_found
from harness.evidence.saves import note_saves
from harness.evidence.stand_ins import DRAWN, ENDLESS, StandIn
from harness.evidence.steps import Renaming
from harness.evidence.trace import Array, ClientTrace, Header, RunTrace, Seen, SeenVariable
from harness.evidence.witness_values import completed_parts
from harness.evidence.writing import write_client
from harness.judging.assumptions import with_assumptions
from harness.judging.laws import Judgement
from harness.judging.resumed_script import began_alike, is_computed
from harness.judging.verdict import Verdict
from harness.recording.client import FileView
from harness.recording.scripts import design_differences
from harness.running.disturbance import Disturbance
from harness.saved_run import load_run, save_run
from harness.verify import judge
from simulator import FaultPlan, Topology
from simulator.faults import Kill, TornCheckpoint

ORDER = [[1, 2], [3, 4], [5, 6], [7, 8]]


def _client(
    values: Sequence[float], examples: Sequence[Sequence[int]], *, unseen: tuple[str, ...] = (), name: str = "w"
) -> ClientTrace:
    """A process of a script: after each step a variable has a value."""
    header = Header("local:0", 0, "mirrored-2", 2, 1, 1, 20, {}, at_once=True)
    seen = tuple(
        Seen(
            index=index,
            at=float(index),
            variables=(SeenVariable(name, "plain", (Array.of([value]),)),),
            examples=(tuple(ids),),
            columns=(0,),
        )
        for index, (value, ids) in enumerate(zip(values, examples, strict=True), start=1)
    )
    return ClientTrace(header, seen=seen, counters=Counters(unseen=unseen))


def _run(values: Sequence[float], examples: Sequence[Sequence[int]], **options: Any) -> RunTrace:
    return RunTrace((_client(values, examples, **options),))


def _truth(examples: Sequence[Sequence[int]] = ORDER, **options: tuple[str, ...]) -> Reference:
    values = [float(index) for index in range(1, len(examples) + 1)]
    noisy = [_run([value * (1 + sign * 1e-7) for value in values], examples) for sign in (1, -1)]
    return Reference(_run(values, examples, **options), tuple(noisy))


def _parts(
    directory: Path,
    first: Sequence[float],
    then: Sequence[float],
    examples: Sequence[Sequence[int]] = ORDER,
    *,
    again: Sequence[Sequence[int]] | None = None,
    saved: tuple[str, ...] = ("ckpt-1",),
    later: tuple[str, ...] = (),
    name: str = "w",
) -> Parts:
    """As an interrupted run leaves them: `then` are the last steps, or have seen examples of their own (`again`).

    The variable `w` has another `name` then.
    """
    for folder in (directory / INTERRUPTED / TRACES, directory / TRACES):
        folder.mkdir(parents=True)
    write_client(directory / INTERRUPTED / TRACES / "local-0.trace", _client(first, examples[: len(first)]))
    rest = examples[len(examples) - len(then) :] if again is None else again
    write_client(directory / TRACES / "local-0.trace", _client(then, rest, name=name))
    Killed(len(first), saved, later).leave(directory)
    return read_parts(directory)


def _judged(parts: Parts, reference: Reference) -> Verdict:
    verdict = judge(parts, reference, program="train.py", tasks={}, seconds=1.0)
    return with_assumptions(verdict, parts.earlier[0].trace, reference.trace, 2, parts)


@pytest.mark.parametrize(
    ("first", "then", "outcome"),
    [
        ([1.0, 2.0], [3.0, 4.0], "consistent"),
        ([1.0, 2.0, 3.0], [3.0, 4.0], "consistent"),  # step 3 is done again, with the same result
        ([1.0, 2.0], [3.5, 4.5], "inconsistent"),  # as with slots that were not saved
        ([1.0, 2.0], [4.0], "inconsistent"),  # a step was never done
        ([1.0, 2.0], [1.0, 2.0, 3.0, 4.0], "inconsistent"),  # from the beginning, though something was saved
        ([1.5, 2.5], [3.0, 4.0], "inconsistent"),  # wrong before it was killed
    ],
)
def test_all_incarnations_are_held_against_one_reference(
    tmp_path: Path, first: list[float], then: list[float], outcome: str
) -> None:
    """Steps may be done again if they are the same."""
    assert _judged(_parts(tmp_path, first, then), _truth()).outcome == outcome


@pytest.mark.parametrize(("then", "outcome"), [([3.0, 4.0], "consistent"), ([3.5, 4.5], "inconsistent")])
def test_a_model_that_is_loaded_has_other_names(tmp_path: Path, then: list[float], outcome: str) -> None:
    """It is compared under those of the first start."""
    parts = _parts(tmp_path, [1.0, 2.0], then, name="loaded")
    assert parts.names == Renaming(((("loaded", 0), ("w", 0)),))
    assert _judged(parts, _truth()).outcome == outcome


def test_what_had_not_been_saved_cannot_be_resumed(tmp_path: Path) -> None:
    """A script that saves later was killed too early; one that never saves has lost its work."""
    for name, later, outcome in (("a", ("state.npz",), "abstained"), ("b", (), "inconsistent")):
        parts = _parts(tmp_path / name, [1.0, 2.0], [1.0, 2.0, 3.0, 4.0], saved=(), later=later)
        verdict = _judged(parts, _truth())
        assert verdict.outcome == outcome
        assert "nothing had been saved" in str(verdict)


def test_a_shard_that_is_read_twice_is_no_other_order(tmp_path: Path) -> None:
    """Data in a new order is not judged where each example comes as often as it should, or nobody knows how often."""
    shuffled = [[1, 2], [3, 4], [2, 3], [1, 4]]
    cases: list[tuple[list[list[int]], list[list[int]], str]] = [
        (shuffled, [[4, 1], [3, 2]], "abstained"),
        (shuffled, [[1, 2], [1, 2]], "inconsistent"),
        ([[1, 2], [3, 4], [2, 3], [1, 5]], [[1, 2], [1, 2]], "abstained"),  # not each as often: some are dropped
        (ORDER, [[1, 2], [3, 4]], "inconsistent"),  # in order, from the beginning
    ]
    for number, (examples, again, outcome) in enumerate(cases):
        parts = _parts(tmp_path / str(number), [1.0, 2.0], [3.0, 4.0], examples, again=again)
        assert _judged(parts, _truth(examples)).outcome == outcome


def test_steps_without_an_end_are_not_judged(tmp_path: Path) -> None:
    """A tape that is used outside of every call: it may have been killed in the midst of a step."""
    verdict = _judged(_parts(tmp_path, [1.0, 2.0], [3.0, 4.0]), _truth(unseen=(ENDLESS,)))
    assert verdict.outcome == "abstained"
    assert "it is not known which steps it had done" in str(verdict.abstained)


def test_a_state_that_nobody_saw_is_not_judged(tmp_path: Path) -> None:
    """Right numbers of steps alone do not make a resumed run consistent."""
    parts, reference = _parts(tmp_path, [1.0, 2.0], [3.0, 4.0]), _truth()

    def blind(run: RunTrace) -> RunTrace:
        clients = []
        for client in run.clients:
            seen = tuple(msgspec.structs.replace(each, variables=None) for each in client.seen)
            clients.append(msgspec.structs.replace(client, seen=seen))
        return RunTrace(tuple(clients))

    earlier = tuple(dataclasses.replace(part, trace=blind(part.trace)) for part in parts.earlier)
    parts = dataclasses.replace(parts, last=blind(parts.last), earlier=earlier)
    verdict = _judged(parts, Reference(blind(reference.trace), tuple(map(blind, reference.perturbed))))
    assert verdict.outcome == "abstained"


def test_variables_that_come_later_are_not_compared() -> None:
    """A part counts its steps from 1, so that a variable has to be there at each of them; the note names the others."""
    truth, part = _run([1.0, 2.0], ORDER[:2]), _run([2.0], [ORDER[1]])
    first, second = truth.clients[0].seen
    slot = SeenVariable("slot", "plain", (Array.of([0.0]),))
    second = msgspec.structs.replace(second, variables=(*(second.variables or ()), slot))
    truth = RunTrace((msgspec.structs.replace(truth.clients[0], seen=(first, second)),))
    found = completed_parts([truth], [part])
    steps = [step for trace in found.traces for step in trace.clients[0].steps]
    assert [[each.name for each in step.variables or ()] for step in steps] == [["w"]] * 3
    assert "not compared, since not every step has them: slot" in found.notes


def test_what_a_loaded_model_calls_otherwise_is_not_judged() -> None:
    """A rate that stays as it is has one name everywhere; nothing that steps change has, so that nothing was judged."""
    rate = SeenVariable("rate", "plain", (Array.of([0.1]),))

    def run(name: str, *states: float) -> RunTrace:
        found = _run(list(states), ORDER[: len(states)]).clients[0]
        renamed = [
            tuple(msgspec.structs.replace(each, name=name) for each in step.variables or ()) for step in found.seen
        ]
        seen = [
            msgspec.structs.replace(step, variables=(*variables, rate))
            for step, variables in zip(found.seen, renamed, strict=True)
        ]
        return RunTrace((msgspec.structs.replace(found, seen=tuple(seen)),))

    truth = run("model/kernel", 1.0, 2.0)
    assert completed_parts([truth], [run("model/kernel", 1.0, 2.0)]).traces
    with pytest.raises(Abstained, match="'kernel', 'model/kernel'"):
        completed_parts([truth], [run("kernel", 2.0, 3.0)])


def test_the_beginnings_are_compared() -> None:
    """A run of which the first part has seen other data is doubted as one that nobody has killed."""
    assert began_alike(_run([1.0, 2.0], ORDER[:2]), _truth().trace)
    assert not began_alike(_run([1.0, 2.0], [[1, 2], [9, 9]]), _truth().trace)


def test_logs_are_no_checkpoints(tmp_path: Path) -> None:
    """Of a script that saves with TensorFlow or Keras only what those had saved counts."""
    parts = _parts(tmp_path, [1.0, 2.0], [3.0, 4.0], saved=("events.log",))
    assert parts.saved == ("events.log",)
    events = [
        {"event": kind, "path": f"/there/{path}", "task": "local:0", "incarnation": 0, "step": 1}
        | {"at": 1.0, "seconds": 0.1, "failed": None, "unfinished": False, "asynchronous": ""}
        for kind, path in (("save", "ckpt-1"), ("restore", "ckpt-0"))
    ]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    note_saves(tmp_path / TRACES, None, journal)
    again = read_parts(tmp_path)
    assert again.saved == ("/there/ckpt-1",)
    assert again.saves is not None
    assert [event.path for event in again.saves.events] == ["/there/ckpt-1", "/there/ckpt-0"]
    note_saves(tmp_path / TRACES, None, tmp_path / "nothing", journal)  # it saves first where it was started again
    assert read_parts(tmp_path).saved == ()


def test_what_a_process_finds_is_noted(tmp_path: Path) -> None:
    """What was written in the view before, as files that hold something; nothing compiled."""
    for name, text in (("ckpt/model", "x"), ("empty", ""), ("__pycache__/a.pyc", "x")):
        (tmp_path / "upper" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "upper" / name).write_text(text)
    files = FileView(1, (), {str(tmp_path / "upper"): "/home/me"}).files()
    assert list(files) == ["/home/me/ckpt/model"]
    note_files_found(tmp_path, "local:0", files, time.monotonic())
    noted = msgspec.json.decode((tmp_path / "local-0.found.json").read_bytes(), type=FoundFiles)
    assert list(noted.files) == ["/home/me/ckpt/model"]
    assert noted.files["/home/me/ckpt/model"] <= noted.began


def test_faults_of_checkpoints_strike_in_the_view() -> None:
    """A directory is that of the script's own view, as this process sees it; other faults stay as they are."""
    plan = FaultPlan(faults=(TornCheckpoint(directory="/data/ckpt", step=2), Kill("local:0", step=3)))
    for root, where in (("/proc/7/root", "/proc/7/root/data/ckpt"), ("", "/data/ckpt")):
        options = Disturbance(plan).options(Topology(), Path("/kept"), root)
        torn, kill = options["faults"].faults
        assert torn.directory == where
        assert kill == plan.faults[1]


def test_data_that_is_drawn_anew_is_not_judged(tmp_path: Path) -> None:
    """By the pipeline, by NumPy or by a generator without a seed; data in a fixed order that begins again is wrong.

    So is, whatever the data, what is not computed as one device computes it.
    """
    again = [[1, 2], [3, 4]]
    for name, counters, outcome in (
        ("drawn", Counters(stand_ins=(StandIn(DRAWN, "train.py:3", "those of another run"),)), "abstained"),
        ("generator", Counters(unseeded=1), "abstained"),
        ("fixed", Counters(), "inconsistent"),
    ):
        reference = _truth()
        client = msgspec.structs.replace(reference.trace.clients[0], counters=counters)
        reference = dataclasses.replace(reference, trace=RunTrace((client,)))
        parts = _parts(tmp_path / name, [1.0, 2.0], [3.0, 4.0], again=again)
        assert _judged(parts, reference).outcome == outcome
        wrong = _parts(tmp_path / f"{name}-wrong", [1.0, 2.0], [3.5, 4.5], again=again)
        assert _judged(wrong, reference).outcome == "inconsistent"


def test_what_is_drawn_again_after_a_restart_may_be_the_same() -> None:
    """Since every process has the seeds of the run; of one that was never killed replicas read the same by mistake."""
    broken = [Judgement(law, "broken", compared=4) for law in ("examples_match_reference", "examples_in_turn")]
    verdict = Verdict("train.py", "mirrored-2", tuple(broken))
    assert not is_computed(verdict, again=True)
    assert is_computed(verdict)
    computed = dataclasses.replace(
        verdict, judgements=(*broken, Judgement("variables_match_reference", "broken", compared=4))
    )
    assert is_computed(computed, again=True)


def test_parts_before_a_new_beginning_of_the_data_have_a_reference_of_their_own(tmp_path: Path) -> None:
    """What was done again is held against data that had not begun anew; saved runs keep both references."""
    parts = _parts(tmp_path / "run", [1.0, 2.0, 3.0], [3.5, 4.5])
    values = [1.0, 2.0, 3.5, 4.5]
    noisy = [_run([value * (1 + sign * 1e-7) for value in values], ORDER) for sign in (1, -1)]
    told = Reference(_run(values, ORDER), tuple(noisy))
    assert _judged(parts, told).outcome == "inconsistent"
    assert _judged(parts, _truth()).outcome == "inconsistent"
    both = dataclasses.replace(told, earlier={0: _truth()})
    verdict = judge(parts, both, program="train.py", tasks={}, seconds=1.0)
    assert verdict.outcome == "consistent"
    save_run(tmp_path / "run", verdict, both)
    again, reference, _ = load_run(tmp_path / "run")
    assert 0 in reference.earlier
    assert judge(again, reference, program="train.py", tasks={}, seconds=1.0).outcome == "consistent"


@pytest.mark.parametrize(
    ("calls", "draws"), [("s", False), ("sd", True), ("d", True), ("", False), ("ds", True), ("ss", False)]
)
def test_a_seed_is_no_draw(calls: str, draws: bool) -> None:
    """A script that seeds NumPy, as `keras.utils.set_random_seed` does, and draws nothing has the same data again."""
    noted: set[str] = set()
    script = SimpleNamespace(name="train.py")
    stand_ins: Any = SimpleNamespace(script=script, note=lambda what, text, **where: noted.add(what))
    state = np.random.get_state()
    with design_differences._python(stand_ins):
        for call in calls:
            np.random.seed(1) if call == "s" else np.random.normal()
    np.random.set_state(state)
    assert noted == ({DRAWN} if draws else set())
