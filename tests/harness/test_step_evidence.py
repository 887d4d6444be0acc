"""The evidence of steps: what is kept, how parts are joined, and what is said of draws and examples by themselves."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.evidence.counters import GivenSeen
from harness.evidence.parts import Part, Parts
from harness.evidence.steps import (
    DRAWN,
    EvidenceReader,
    EvidenceWriter,
    HeldVariable,
    PlaceValue,
    Renaming,
    RunEvidence,
    Segment,
    StepEvidence,
    StepPlace,
)
from harness.evidence.trace import DrawSeen, RunTrace
from harness.recording.steps import RunEvidenceWriter
from harness.recording.steps.draw_checks import DrawSource, Repeats
from harness.recording.steps.example_ids import ExampleIds
from harness.recording.steps.example_rows import ExampleRows
from harness.recording.steps.protocol import StepBegin, StepEnd, Variables
from harness.recording.steps.row_joins import NotJoinable, joined_draw, joined_rows, rows_axis, same_rows
from harness.running.resume_steps import segments_by_state

_HERE = DrawSource("RandomUniform", "train.py:3", by_keras=False, seeded=True)
_PLACE = StepPlace(DRAWN, 0, 0)


def _rows(*numbers: float) -> Any:
    return np.array([[number, number / 2] for number in numbers], np.float32)


# ---------------------------------------------------------------------- a run in parts


def _left(folder: Path, states: list[float], *, builds: int = 0, begins: float | None = None, name: str = "w") -> str:
    """What a process leaves that had so many calls before it trained, and reported a variable after each step."""
    writer = EvidenceWriter(folder)
    for index, state in enumerate([0.0] * builds + states, start=1):
        writer.begin(index)
        trained = index > builds
        first = index == builds + 1 and begins is not None
        before = (_held(writer, begins if first else 0.0, name),)
        reported = ((_held(writer, state, name),),) if trained else ()
        writer.publish(StepEvidence(index, before, reported=reported, trained=trained))
    return str(folder)


def _held(writer: EvidenceWriter, value: float | None, name: str = "w") -> HeldVariable:
    return HeldVariable(name, 0, "copies", (writer.put(np.float32(value)),))


def _part(folder: str) -> Part:
    return Part(RunTrace(()), 1, 1, evidence=(folder,))


@pytest.mark.parametrize(("builds", "name"), [(0, "w"), (2, "w"), (0, "loaded")])
def test_a_part_goes_on_from_the_step_whose_state_it_began_with(builds: int, name: str, tmp_path: Path) -> None:
    """To the bit, under whatever name; what was done after that step and was done again is the later part's."""
    first = _left(tmp_path / "first", [1.0, 2.0, 3.0, 4.0], builds=builds, begins=0.5)
    second = _left(tmp_path / "second", [3.5, 4.5, 5.5], builds=builds, begins=2.0, name=name)
    names = Renaming(() if name == "w" else (((name, 0), ("w", 0)),))
    segments = segments_by_state(Parts(RunTrace(()), (_part(first),), evidence=(second,), names=names))
    assert segments == (Segment((first,)), Segment((second,), builds + 2, builds, names=names))
    run = RunEvidence(segments)
    found = [run.step(builds + number) for number in range(1, 6)]
    assert [each.segment for each in found] == [0, 0, 1, 1, 1]
    assert {held.name for each in found for _, held in (*each.held, *each.reported(0))} == {"w"}
    reported = [float(each.reported(0)[0][0].array(each.reported(0)[0][1].copies[0])) for each in found]
    assert reported == [1.0, 2.0, 3.5, 4.5, 5.5]
    assert not run.step(builds + 6).is_there


@pytest.mark.parametrize(("begins", "after"), [(0.5, 0), (9.0, 4)])
def test_a_part_that_began_anew_or_with_nothing_that_is_known(begins: float, after: int, tmp_path: Path) -> None:
    """The first state is one, too; where it has no state of the run, it is taken to go on at the end."""
    first = _left(tmp_path / "first", [1.0, 2.0, 3.0, 4.0], begins=0.5)
    second = _left(tmp_path / "second", [1.5], begins=begins)
    _, found = segments_by_state(Parts(RunTrace(()), (_part(first),), evidence=(second,)))
    assert found.after == after


def test_slots_that_were_not_restored_do_not_tell_where_a_part_goes_on(tmp_path: Path) -> None:
    """They are as the training began with them, and more of them than of what was restored."""

    def left(folder: str, first: int, slots: Callable[[int], float]) -> str:
        writer = EvidenceWriter(tmp_path / folder)
        for index in (1, 2, 3):
            writer.begin(index)
            own = _held(writer, float(first + index))
            held = (own, *(_held(writer, slots(index), name) for name in ("m", "v", "n")))
            writer.publish(StepEvidence(index, held, trained=True))
        return str(tmp_path / folder)

    first = left("first", 0, lambda index: float(index - 1))
    second = left("second", 2, lambda index: float(index - 1))  # begins with 3.0, and slots of 0.0
    _, found = segments_by_state(Parts(RunTrace(()), (_part(first),), evidence=(second,)))
    assert found.after == 2


def test_a_step_is_published_again_with_what_came_later(tmp_path: Path) -> None:
    """A report is there at once, since the process may be killed right after it; an evaluation after it comes later."""
    writer, reader = EvidenceWriter(tmp_path / "steps"), EvidenceReader(tmp_path / "steps")
    writer.begin(1)
    reported = (_held(writer, 1.0),)
    writer.publish(StepEvidence(1, reported=(reported,)))
    assert reader.steps == 1
    given = PlaceValue(_PLACE, 0, (writer.put(_rows(1, 2)),))
    writer.publish(StepEvidence(1, reported=(reported,), evaluations=((given,),)))
    run = RunEvidence([Segment((str(tmp_path / "steps"),))])
    step = run.step(1)
    assert float(step.reported(0)[0][0].array(step.reported(0)[0][1].copies[0])) == 1.0
    ((found,),) = step.evaluation(0).replicas(_PLACE)
    assert np.array_equal(found[0].array(found[1].arrays[0]), _rows(1, 2))
    assert not step.evaluation(1).is_there


def test_a_step_whose_state_cannot_be_read_leaves_no_evidence(tmp_path: Path) -> None:
    """One device would begin with something of its own; the steps after it keep their numbers."""

    def unreadable() -> Variables:
        raise ValueError("no memory")

    writer = EvidenceWriter(tmp_path / "steps")
    steps = RunEvidenceWriter(writer, range(1), lambda tensors, received: received(list(tensors)))
    for others in (tuple, unreadable, tuple):
        with contextlib.suppress(ValueError):
            steps.begin(StepBegin(others=others))
        steps.end(tuple, StepEnd(done=True, trained=True))
    steps.close()
    run = RunEvidence([Segment((str(tmp_path / "steps"),))])
    assert [run.step(number).is_there for number in (1, 2, 3)] == [True, False, True]


# ---------------------------------------------------------------------- joining


def test_the_axis_of_rows_is_where_one_replica_asks_for_all() -> None:
    """Also where it is not the first; none where another axis differs, or where nothing adds up."""
    assert rows_axis((8, 3), [(4, 3), (4, 3)]) == 0
    assert rows_axis((5, 8), [(5, 3), (5, 5)]) == 1
    assert rows_axis((8, 3), [(4, 3), (4, 2)]) is None
    assert rows_axis((4,), [(4,), (4,)]) is None


def test_rows_are_joined_and_what_is_given_whole_is_not() -> None:
    """Two equal parts of the shape of what one replica is given are one thing, such as anchors."""
    one, two = _rows(1, 2), _rows(3, 4)
    assert np.array_equal(joined_rows([one, two], _rows(0, 0, 0, 0)), _rows(1, 2, 3, 4))
    assert np.array_equal(joined_rows([one, one], _rows(0, 0)), one)
    assert np.array_equal(joined_rows([one, one], _rows(0, 0), lambda: False), _rows(1, 2, 1, 2))  # by accident
    assert np.array_equal(joined_rows([one, two], _rows(0, 0)), _rows(1, 2, 3, 4))
    own = np.array(7)
    assert joined_rows([np.array(3), np.array(4)], own) is own


def test_orders_of_the_same_rows_are_no_rows() -> None:
    """Each worker has one of its own, of which the first worker's is what one device has; labels are rows."""
    random = np.random.default_rng(1)
    one, two, own = random.permutation(16), random.permutation(16), random.permutation(16)
    assert np.array_equal(joined_rows([one, two], one), one)
    assert len(joined_rows([one, two], own)) == 32  # one device has another batch of them
    assert len(joined_rows([one + 1, two + 1], one + 1)) == 32
    assert len(joined_rows([np.arange(2), np.array([1, 0])], np.arange(2))) == 4  # of two classes


def test_batches_that_replicas_pad_by_themselves_are_padded_to_the_longest() -> None:
    """With zeros, as padding is."""
    found = joined_rows([np.ones((2, 3)), np.ones((1, 5))], np.zeros((2, 4)))
    assert found.shape == (3, 5)
    assert found.sum() == 2 * 3 + 5


@pytest.mark.parametrize(
    ("own", "padding"),
    [
        ([[1, 2, -1, -1], [4, 5, 6, 7]], -1),  # one device pads as the program does
        ([[1, 2, -1, -1], [1, 2, -2, -1]], 0),
        ([[8, 9, -1, -1], [4, 5, 6, 7]], 0),  # it has other rows
    ],
)
def test_rows_are_padded_as_those_of_one_device(own: list[list[int]], padding: int) -> None:
    """Each replica has padded its own batch."""
    parts = [np.array([[1, 2]]), np.array([[4, 5, 6, 7]])]
    found = joined_rows(parts, np.array(own))
    assert found.tolist() == [[1, 2, padding, padding], [4, 5, 6, 7]]


def test_a_draw_that_belongs_to_no_example_is_apart() -> None:
    """Unless all replicas have drawn the same; another shape is apart for another reason."""
    same, other = np.array([0.5]), np.array([0.25])
    assert joined_draw([same, same], np.zeros(1)) is same
    with pytest.raises(NotJoinable, match="numbers of its own") as own:
        joined_draw([same, other], np.zeros(1))
    assert own.value.is_own
    with pytest.raises(NotJoinable, match="arrays of shape") as shape:
        joined_draw([np.zeros((2, 3)), np.zeros((2, 3))], np.zeros(3))
    assert not shape.value.is_own


# ---------------------------------------------------------------------- draws


def _look(repeats: Repeats, step: int, parts: list[Any], own: Any, source: DrawSource = _HERE) -> list[DrawSeen]:
    return list(repeats.look(source, (step, None), _PLACE, range(len(parts)), [[part] for part in parts], [own]))


def test_equal_draws_of_examples_are_seen_and_by_whose_seed() -> None:
    """By one of the draw, or of each process; not of few bits; not of one draw for all."""
    random = np.random.default_rng(1)
    one, two, own = random.random((4, 3)), random.random((4, 3)), random.random((8, 3))
    assert [seen.kind for seen in _look(Repeats(), 1, [one, one], own)] == ["equal"]
    assert _look(Repeats(), 1, [one, two], own) == []
    unseeded = DrawSource("RandomUniform", "train.py:3", by_keras=False, seeded=False)
    assert [seen.kind for seen in _look(Repeats(), 1, [one, one], own, unseeded)] == ["equal_by_process"]
    assert _look(Repeats(), 1, [one, two], own, unseeded) == []
    assert _look(Repeats(), 1, [one > 2, one > 2], own > 2) == []
    assert _look(Repeats(), 1, [one, one], random.random((4, 3))) == []


def test_equal_draws_for_one_example_each_are_seen_too() -> None:
    """In a loop over examples: replica 1 draws for its first one what replica 0 drew for its own."""
    draws = np.random.default_rng(1).random((6, 60))
    for second, found in ((draws[0], ["equal"]), (draws[1], [])):
        repeats, seen = Repeats(), list[DrawSeen]()
        for replica, drawn, own in ((0, draws[0], draws[2]), (1, second, draws[3])):
            seen += repeats.look(_HERE, (1, None), _PLACE, [replica], [[drawn]], [own])
        assert [each.kind for each in seen] == found


def test_a_draw_that_comes_again_is_seen_unless_one_device_repeats_it_too() -> None:
    """Replica 1 draws now what replica 0 draws at the next step; a fixed noise comes at each step."""
    draws = np.random.default_rng(1).random((6, 4, 3))
    repeats = Repeats()
    assert _look(repeats, 1, [draws[0], draws[1]], np.concatenate([draws[0], draws[5]])) == []
    (again,) = _look(repeats, 2, [draws[1], draws[2]], np.concatenate([draws[1], draws[5]]))
    assert (again.kind, again.where) == ("again", "train.py:3")
    fixed = Repeats()
    for step in (1, 2):
        assert _look(fixed, step, [draws[0], draws[1]], np.concatenate(draws[:2])) == []


@pytest.mark.parametrize(("rows", "kinds"), [(8, []), (400, ["again"])])
def test_a_mask_may_come_again_by_chance(rows: int, kinds: list[str]) -> None:
    """Half of eight rows are chosen in one of 70 ways; of many rows nobody chooses the same ones again."""
    random = np.random.default_rng(1)
    first, other, later, own = ((random.permutation(rows) < rows // 2).astype(np.float32) for _ in range(4))
    repeats = Repeats()
    assert _look(repeats, 1, [first, other], np.concatenate([first, own])) == []
    found = _look(repeats, 2, [other, later], np.concatenate([other, own]))
    assert [each.kind for each in found] == kinds


# ---------------------------------------------------------------------- examples


def _over_all(examples: ExampleRows) -> GivenSeen:
    total = examples.over_all()
    assert total is not None
    return total


def _mixed(examples: ExampleRows) -> int | None:
    """How many are, of the pair of parts of which most are."""
    return max((mix.examples for mix in _over_all(examples).mixes), default=None)


def test_features_that_come_with_other_labels_are_mixed() -> None:
    """Each part by itself is right, in the step or over all of them."""
    x, y = _rows(1, 2, 3, 4), np.array([1, 2, 3, 4])
    found = ExampleRows()
    assert found.add(1, [x, y[::-1]], [x, y]) == GivenSeen(4, 4, 4)
    assert _mixed(found) == 4
    right = ExampleRows()
    assert right.add(1, [x[::-1], y[::-1]], [x, y]) is not None
    assert (right.differing, _mixed(right)) == (0, None)
    over_all = ExampleRows()
    over_all.add(3, [x[:2], y[2:]], [x[2:], y[2:]])
    over_all.add(5, [x[2:], y[:2]], [x[:2], y[:2]])
    assert (_over_all(over_all).others, _mixed(over_all)) == (4, 4)
    assert {mix.steps for mix in _over_all(over_all).mixes} == {((3, 2), (5, 2))}


def test_what_each_replica_is_given_whole_is_no_part_of_an_example() -> None:
    """Noise for the weights, which is one device's; where two parts differ nobody knows which has the examples."""
    x, y, noise = _rows(1, 2, 3, 4), np.array([1, 2, 3, 4]), _rows(9)
    whole = ExampleRows()
    assert whole.add(1, [x[:2], y[:2], noise, noise], [x, y, noise, noise]) == GivenSeen(2, 4, 0)
    assert whole.add(2, [noise, x, y], [noise, x, y]) == GivenSeen(4, 4, 0)
    assert whole.differing == 1
    assert ExampleRows().add(1, [noise, x], [noise, x]) is None
    assert ExampleRows().add(1, [], []) is None
    assert ExampleRows().add(1, [x[:2], y[:2], _rows(8)], [x, y, noise]) is None


def test_parts_that_one_device_puts_together_otherwise_each_time_are_not_tied() -> None:
    """A label stays with its features while what stands beside both is another example in each epoch."""
    x, y = _rows(1, 2, 3, 4), np.array([1, 2, 3, 4])
    free, tied = ExampleRows(), ExampleRows()
    for step in range(3):
        beside = np.roll(y, step)
        free.add(step, [x, y, np.roll(beside, 1)], [x, y, beside])
        tied.add(step, [x, np.roll(y, 1), np.roll(beside, 1)], [x, y, beside])
    assert _mixed(free) is None
    assert {mix.parts for mix in _over_all(tied).mixes} == {(3, 0, 1), (3, 1, 0)}


def test_labels_of_others_are_told_where_another_part_is_drawn() -> None:
    """The number of an example still tells which it is; a count that each worker has for itself tells nothing."""
    number, y = np.array([1, 2, 3, 4]), np.array([1, 2, 3, 4])
    drawn = ExampleRows()
    drawn.add(1, [number, y[::-1], _rows(5, 6, 7, 8)], [number, y, _rows(1, 2, 3, 4)])
    assert {mix.parts for mix in _over_all(drawn).mixes} == {(3, 0, 1), (3, 1, 0)}
    counted = ExampleRows()
    counted.add(1, [number, np.array([1, 1, 2, 2])], [number, y])
    assert _mixed(counted) is None


def test_rows_of_texts_are_known_by_what_they_say() -> None:
    """Of one text or of several; the arrays have only where these are."""
    one, several = np.array([b"a", b"bc"], object), np.array([[b"a", b"b"], [b"c", b"d"]], object)
    for texts in (one, several):
        examples = ExampleRows()
        found = examples.add(1, [_rows(2, 1), texts[::-1].copy()], [_rows(1, 2), texts])
        assert found is not None
        assert (examples.differing, found.others) == (0, 0)
        assert _mixed(examples) is None
        swapped = ExampleRows()
        swapped.add(1, [_rows(1, 2), texts[::-1].copy()], [_rows(1, 2), texts])
        assert _mixed(swapped) == 2
        assert same_rows([texts[::-1].copy()], [texts])
        assert not same_rows([texts[:1]], [texts[1:]])


@pytest.mark.parametrize(
    ("labels", "own", "mixed"),
    [
        ([1, 3, 2], [1, 2, 3, 4], 2),  # one example is lost, and two have each other's label
        ([1, 3, 1], [1, 1, 3, 3], 2),  # labels do not tell which they are, and features do
        ([1, 9, 2], [1, 2, 3, 4], None),  # a label that no example has
        ([1, 1, 1], [1, 2, 3, 4], None),  # a label that comes too often
    ],
)
def test_labels_of_others_are_told_where_examples_are_lost(
    labels: list[int], own: list[int], mixed: int | None
) -> None:
    """As where files of features and of labels are sharded each by themselves."""
    examples, x = ExampleRows(), _rows(1, 2, 3, 4)
    examples.add(1, [x[:3], np.array(labels)], [x, np.array(own)])
    assert _mixed(examples) == mixed
    alike = ExampleRows()  # features tell the label, if not the example
    alike.add(1, [_rows(1, 1, 2), np.array([1, 2, 2])], [_rows(1, 1, 2, 2), np.array([1, 1, 2, 2])])
    assert _mixed(alike) == 1


@pytest.mark.parametrize(
    ("weights", "names", "changed"),
    [
        (([1.0, 0.0], [1.0, 0.0]), True, 1),
        (([1.0, 0.5], [1.0, 0.25]), True, 0),  # drawn anew
        (([1.0, 0.0],), True, 0),  # it came once
        (([1.0, 0.0], [1.0, 0.0]), False, 0),  # nothing tells which example it is
    ],
)
def test_examples_that_are_changed_alike_each_time_are_not_drawn(
    weights: Sequence[list[float]], names: bool, changed: int
) -> None:
    """A part that no two examples have tells which one it is, and another part is not that one's."""
    examples, x = ExampleRows(), _rows(1, 2 if names else 1)
    for given in weights:
        assert examples.add(1, [x, np.array(given)], [x, np.array([1.0, 1.0 if names else 2.0])]) is not None
    assert _over_all(examples).changed == changed


def test_examples_that_are_padded_otherwise_are_the_same() -> None:
    """Each replica pads its own batch, with zeros."""
    examples, rows = ExampleRows(), np.array([[1, 2, 0], [3, 0, 0]])
    examples.add(1, [_rows(1, 2), rows], [_rows(1, 2), np.pad(rows, [(0, 0), (0, 2)])])
    assert _over_all(examples).others == 0
    other = ExampleRows()
    other.add(1, [_rows(1, 2), rows], [_rows(1, 2), np.pad(rows, [(0, 0), (2, 0)])])
    assert _over_all(other).others == 2


def test_other_examples_are_counted_and_an_other_order_is_none_over_all() -> None:
    """A step may have others while all steps together have the same."""
    examples = ExampleRows()
    assert examples.add(1, [_rows(1, 2)], [_rows(3, 4)]) is not None
    assert examples.add(1, [_rows(3, 4)], [_rows(1, 2)]) is not None
    assert (examples.differing, _over_all(examples).others, _mixed(examples)) == (2, 0, None)
    assert examples.add(1, [_rows(1), np.array([1, 2])], [_rows(1), np.array([1, 2])]) is None


def test_features_that_come_again_are_told_beside_others() -> None:
    """Both workers read the same unlabelled examples beside labelled ones; what each counts is no example."""
    labels, rows = np.arange(16), np.arange(32).reshape(16, 2)
    for beside, found in ((np.tile(rows[:4], (4, 1)), (16, 12, 0)), (rows[::-1], (0, 0, 0))):
        examples = ExampleRows()
        examples.add(1, [labels, beside], [labels, rows])
        assert _over_all(examples).again == found
    several = ExampleRows()  # calls with other numbers of parts
    several.add(1, [labels, labels, rows], [labels, labels, rows])
    several.add(1, [labels, labels], [labels, labels])
    assert _over_all(several).others == 0
    counted = ExampleRows()
    counted.add(1, [rows, np.tile(np.arange(8), 2)], [rows, np.arange(16)])
    assert _over_all(counted).again == (0, 0, 0)


def _in_turn(orders: Sequence[Sequence[int]], own: Sequence[int], batch: int = 32) -> tuple[int, int, int]:
    """What is told of workers that read these, each its part of a batch, next to one device that reads others."""
    part, examples = batch // len(orders), ExampleRows()
    for step in range(len(own) // batch):
        given = [number for order in orders for number in order[step * part : (step + 1) * part]]
        examples.add(1, [np.array(given)], [np.array(own[step * batch : (step + 1) * batch])])
    return _over_all(examples).again


@pytest.mark.parametrize("seed", range(5))
def test_workers_that_read_everything_are_told_from_shards(seed: int) -> None:
    """Each of them in an order of its own, and anew in each pass: nobody knows which examples a step has to have."""
    draw = random.Random(seed)

    def passes(ids: Sequence[int], number: int) -> list[int]:
        return [each for _ in range(number) for each in draw.sample(list(ids), len(ids))]

    everything, own = range(128), passes(range(128), 2)
    rows, again, expected = _in_turn([passes(everything, 1), passes(everything, 1)], own)
    assert rows == 128
    assert again > 16
    assert expected == 0
    assert _in_turn([passes(range(0, 128, 2), 2), passes(range(1, 128, 2), 2)], own) == (0, 0, 0)
    uneven = passes(range(129), 2)  # one shard begins anew before the other one
    assert _in_turn([passes(range(0, 129, 2), 2), passes(range(1, 129, 2), 3)], uneven) == (0, 0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_examples_that_the_data_have_twice_may_come_again(seed: int) -> None:
    """One device is given some of them again as well, and chance decides when."""
    draw = random.Random(seed)
    ids = [draw.randrange(400) for _ in range(512)]
    own = draw.sample(ids, len(ids))
    cut = draw.sample(ids, len(ids))
    assert _in_turn([cut[::2], cut[1::2]], own) == (0, 0, 0)
    with_replacement = [draw.choices(range(500), k=512) for _ in range(3)]
    assert _in_turn([with_replacement[0][::2], with_replacement[1][::2]], with_replacement[2]) == (0, 0, 0)


def test_ids_that_come_from_the_run_are_replaced_by_own_ones() -> None:
    """Those that are reported otherwise stay, and nothing is remembered beyond a report."""
    ids = ExampleIds()
    ids.add(0, np.array([5, 6, 7, 8]), np.array([1, 2, 3, 4]))
    assert ids.own(((5, 6), (7, 8))) == ((1, 2, 3, 4),)
    assert ids.own(((5, 6), (7, 8))) is None
    ids.add(0, np.array([5, 6]), np.array([1, 2]))
    assert ids.own(((9, 10),)) is None


def test_the_rows_of_an_evaluation_are_told_in_any_order() -> None:
    """All tensors of a row together: what belongs to another row is another batch."""
    x, y = np.arange(12.0).reshape(4, 3), np.arange(4)
    order = [2, 0, 3, 1]
    assert same_rows([x[order], y[order]], [x, y])
    assert same_rows([x[order], y[order], np.array(1.0)], [x, y, np.array(2.0)])
    assert not same_rows([x[order], y], [x, y])
    assert not same_rows([x[:3], y[:3]], [x, y])
    assert not same_rows([x, y[:3]], [x, y[:3]])
