"""What is said of a culprit: nothing that its own values, its operands or the explanation beside it deny."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from harness import culprits
from harness.culprits import with_culprit
from harness.evidence.watched_step import OUTER, REPLICA, Op, WatchedVariable
from harness.judging.culprit import Culprit, Looked, reasons
from harness.judging.culprit.alignment import OperationNode
from harness.judging.culprit.kinds import (
    BRANCH,
    DIVIDED,
    EXAMPLES,
    EXTREME,
    NUMBER,
    PARTS,
    SHARED,
    STATE,
    TWICE,
    UPDATE,
    WHOLE,
    MistakeKind,
)
from harness.judging.culprit.relations import LARGEST, PARTIAL, REPLICATED, SPLIT, Relation
from harness.judging.culprit.scene import Reduction, Scene
from harness.judging.explain.protocol import Explanation
from harness.judging.laws.protocol import Finding, Judgement
from harness.judging.verdict import Verdict

_ANOTHER = "variable 'w' begins with another value than in the reference"


def _scene(
    value: float,
    parts: tuple[float, ...],
    relations: Any,
    inputs: Any = (),
    *,
    all_seen: bool = True,
    op: str = "Mul",
    zone: str = OUTER,
    name: str = "m",
    variable: WatchedVariable | None = None,
) -> Any:
    """An operation that gives a number, with what its operands are related by; `variable` is what it changes."""
    side = SimpleNamespace(watched=SimpleNamespace(targets=()), is_changed_before=lambda op: False)
    aligned: Any = SimpleNamespace(replicas=len(parts), variables={"w": variable}, sides=[side])
    one = np.ones((), np.float32)
    given = tuple((frozenset(each), one, [one]) for each in inputs)
    found = [np.asarray(part, np.float32) for part in parts]
    return Scene(
        aligned,
        OperationNode(0, 1),
        Op(1, op, name, zone, 0, (), None, (), (), "w" if variable is not None or op.startswith("Assign") else ""),
        given,
        frozenset(relations),
        np.asarray(value, np.float32),
        found,
        None,
        all_seen,
    )


@pytest.mark.parametrize(
    ("name", "said"), [("m", "is the reference's value"), ("a/reduce_variance/Mean", "which is not that of all")]
)
def test_the_mean_of_variances_is_not_said_to_be_right(name: str, said: str) -> None:
    """The mean within is, of which the line goes on."""
    scene = _scene(2.0, (1.0, 3.0), (), op="Mean", name=name)
    rows = np.ones((4, 1), np.float32), [np.ones((2, 1), np.float32)] * 2
    told = reasons._proved(replace(scene, inputs=((frozenset({Relation(SPLIT)}), *rows),)))
    assert told is not None
    assert said in told[1]
    assert (told[0] is EXAMPLES) == (name != "m")


@pytest.mark.parametrize(
    ("op", "made", "said"),
    [
        ("Const", [], "a number here is 32, and 16 on one device"),
        ("Cast", ["Const"], "a number here is 32, and 16 on one device"),
        ("Cast", ["Mean"], None),  # what an operation gave goes into it
        ("ReadVariableOp", [], None),
    ],
)
def test_a_number_that_the_program_gives_is_told_with_that_of_one_device(
    op: str, made: list[str], said: str | None
) -> None:
    """Such as a batch times the number of replicas."""
    scene = _scene(16.0, (32.0, 32.0), {Relation(REPLICATED, 1)}, op=op)
    producers = dict(enumerate((SimpleNamespace(type=each) for each in made), start=1))
    scene.aligned.sides = [SimpleNamespace(producer=producers.get)]
    scene = replace(scene, op=msgspec.structs.replace(scene.op, inputs=tuple(producers)))
    assert reasons._other_number(scene) == said
    right = replace(scene, relations=frozenset({Relation(REPLICATED)}))
    assert reasons._other_number(right) is None


@pytest.mark.parametrize(("first", "said"), [([1, 0], True), ([0, 2], False)])
def test_an_order_of_own_examples_is_told(first: list[int], said: bool) -> None:
    """Only where each replica has the rows that it was given, and one device has all of them in another order."""
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], np.float32)
    given = frozenset({Relation(SPLIT)}), rows, [rows[:2], rows[2:]]
    scene = replace(_scene(0.0, (0.0,), (), op="ReverseV2"), inputs=(given,), value=rows[::-1])
    scene = replace(scene, parts=[rows[first], rows[[3, 2]]])
    found = reasons._proved(scene)
    assert (found is not None) == said
    assert found is None or (found[0] is EXAMPLES and "another order" in found[1])


def test_a_factor_is_told_as_the_values_have_it() -> None:
    """In coarse arithmetic they may have another one than the number of replicas."""
    relations = {Relation(PARTIAL, 1)}
    assert "add up to 3 times" in reasons._scaled(_scene(2.0, (2.0, 2.0, 2.001), relations))
    assert "add up to 3.56 times" in reasons._scaled(_scene(2.0, (2.0, 3.0, 2.12), relations))
    assert "each replica has 1/3 of" in reasons._scaled(_scene(3.0, (1.0, 1.0, 1.0), {Relation(REPLICATED, -1)}))


def test_operands_are_not_said_to_be_right_that_are_not() -> None:
    """The line after it tells of each operand."""
    right, wrong = {Relation(REPLICATED)}, set[Relation]()
    assert "although everything that it is computed from is" in reasons._unrelated(
        _scene(1, (2, 3), (), (right, right))
    )
    assert "neither is all that it is computed from" in reasons._unrelated(_scene(1, (2, 3), (), (right, wrong)))
    unseen = reasons._unrelated(_scene(1, (2, 3), (), (right,), all_seen=False))
    assert "although all that was seen of what it is computed from is" in unseen


def _kind(*scene: Any, **told: Any) -> MistakeKind | None:
    found = reasons._proved(_scene(*scene, **told))
    return None if found is None else found[0]


def test_what_values_prove_has_a_kind() -> None:
    """Its twin, whose values are right or prove nothing, has none."""
    whole, part, rows = {Relation(REPLICATED)}, {Relation(PARTIAL)}, {Relation(SPLIT)}
    assert _kind(5.0, (3.0, 3.0), (), (part, whole), op="AddV2") is WHOLE
    assert _kind(5.0, (3.0, 4.0), (), (part, whole), op="AddV2") is None
    assert _kind(5.0, (3.0, 3.0), (), (part, whole), op="AddV2", zone=REPLICA) is PARTS  # as it is assigned
    assert _kind(5.0, (3.0, 4.0), (), (part,), zone=REPLICA) is PARTS
    assert _kind(5.0, (3.0, 4.0), (), (part,)) is None
    assert _kind(5.0, (3.0, 4.0), (), (whole, whole)) is STATE
    assert _kind(5.0, (3.0, 3.0), (), (whole, whole)) is None
    assert _kind(5.0, (3.0, 5.0), {Relation(LARGEST)}) is EXTREME
    assert _kind(1.0, (-1.0, 1.0), {Relation(LARGEST)}, (part,), zone=REPLICA) is PARTS  # by accident, as of signs
    assert _kind(5.0, (3.0, 4.0), (), (rows,)) is EXAMPLES
    assert _kind(5.0, (2.0, 3.0), {Relation(PARTIAL)}, (rows,)) is None
    assert _kind(5.0, (3.0, 4.0), (), (part,), op="AssignAddVariableOp", zone=REPLICA) is UPDATE
    assert _kind(5.0, (3.0, 4.0), (), (part,), op="AssignAddVariableOp") is None  # of all replicas at once
    for aggregation, times, kind in (("SUM", 2.0, TWICE), ("SUM", 3.0, UPDATE), ("MEAN", 2.0, UPDATE)):
        counter = WatchedVariable("w", "mirrored", aggregation)
        scene = _scene(5.0, (3.0, 4.0), (), ((),), op="AssignAddVariableOp", zone=REPLICA, variable=counter)
        given = np.full((), times, np.float32)
        told = reasons._proved(replace(scene, inputs=((frozenset(), np.ones((), np.float32), [given, given]),)))
        assert told is not None
        assert told[0] is kind


@pytest.mark.parametrize("op", ["If", "StatelessIf", "Case"])
def test_a_branch_by_what_each_replica_has_is_told_from_one_that_all_take(op: str) -> None:
    """A condition may be right on one replica; what is drawn without a state is no branch."""
    for conditions, kind in (((True, False), BRANCH), ((False, False), None), ((1, 2), BRANCH)):
        scene = _scene(0.1, (0.1, 0.2), (), ((),), op=op, zone=REPLICA)
        parts = [np.asarray(each) for each in conditions]
        told = reasons._proved(replace(scene, inputs=((frozenset({Relation(PARTIAL)}), np.asarray(True), parts),)))
        assert (told is not None and told[0] is BRANCH) == (kind is BRANCH)
        assert told is None or "random" not in told[1]


@pytest.mark.parametrize("averages", [False, True])
@pytest.mark.parametrize("kind", [REPLICATED, PARTIAL])
def test_gradients_of_a_whole_loss_are_told_where_they_are_added_up(kind: str, averages: bool) -> None:
    """A loss of which each replica has a part, and a mean of gradients, are something else."""
    scene = _scene(1.0, (1.0, 1.0), {Relation(PARTIAL, 1)}, zone=REPLICA)
    scene.aligned.sides = [
        SimpleNamespace(
            watched=SimpleNamespace(targets=(7,)), producer=lambda _: SimpleNamespace(number=3, outputs=(7,))
        )
    ]
    scene.aligned.truths = {OperationNode(0, 3): 9}
    scene.aligned.output = lambda number, place: frozenset({Relation(kind)}) if (number, place) == (9, 0) else None
    scene = replace(scene, summed=Reduction("train.py:3", averages))
    assert reasons._has_whole_loss(scene) == (kind == REPLICATED and not averages)


@pytest.mark.parametrize(("kept", "parts", "kind"), [
    ("plain", (5.0, 6.0), SHARED),
    ("plain", (6.0, 6.0), None),
    ("mirrored", (5.0, 6.0), None),
])  # fmt: skip
def test_one_copy_that_all_replicas_change_is_told_from_a_wrong_beginning(
    kept: str, parts: tuple[float, float], kind: MistakeKind | None
) -> None:
    """The first replica reads what it should, and the second what the first has made of it."""
    found = reasons._proved(_scene(5.0, parts, (), op="ReadVariableOp", variable=WatchedVariable("w", kept)))
    assert found is not None
    assert found[0] is kind
    assert ("begins with" in found[1]) is (kind is None)


def test_a_beginning_off_by_the_number_of_replicas_is_a_number_that_the_program_gives() -> None:
    """Such as a rate times the number of replicas."""
    read: dict[str, Any] = {"op": "ReadVariableOp", "variable": WatchedVariable("w", "mirrored")}
    scaled = reasons._proved(_scene(0.1, (0.2, 0.2), {Relation(REPLICATED, 1)}, **read))
    assert scaled == (NUMBER, "variable 'w' begins with 2 times the reference's value")
    assert reasons._proved(_scene(0.1, (0.3, 0.3), (), **read)) == (None, _ANOTHER)
    assert _kind(9.7, (8.7, 10.7), {Relation(PARTIAL, 1)}) is None  # each has another one, as of its own examples


@pytest.mark.parametrize(("kept", "given", "zone", "kind"), [
    ("plain", REPLICATED, REPLICA, SHARED),
    ("mirrored", REPLICATED, REPLICA, UPDATE),
    ("plain", PARTIAL, REPLICA, UPDATE),
    ("plain", REPLICATED, OUTER, None),
])  # fmt: skip
def test_what_each_replica_adds_to_one_copy_counts_for_each(
    kept: str, given: str, zone: str, kind: MistakeKind | None
) -> None:
    """Of parts they are to be added up, and outside of the replicas one adds once."""
    scene = _scene(
        5.0,
        (5.0, 5.0),
        (),
        ({Relation(given)},),
        op="AssignAddVariableOp",
        zone=zone,
        variable=WatchedVariable("w", kept),
    )
    found = reasons._proved(scene)
    assert found is not None
    assert found[0] is kind


@pytest.mark.parametrize(("averages", "kind"), [(True, DIVIDED), (False, None)])
def test_a_share_of_what_all_have_is_right_in_a_sum_only(averages: bool, kind: MistakeKind | None) -> None:
    """In a mean it counts too little."""
    scene = _scene(4.0, (2.0, 2.0), {Relation(REPLICATED, -1), Relation(PARTIAL)}, op="RealDiv")
    found = reasons._proved(replace(scene, summed=Reduction("train.py:9", averages=averages)))
    assert (None if found is None else found[0]) is kind


@pytest.mark.parametrize(("op", "dtype", "kind"), [
    ("TopKV2", np.int32, EXAMPLES),
    ("TopKV2", np.float32, PARTS),
    ("Tanh", np.int32, None),
])  # fmt: skip
def test_how_many_are_taken_is_no_part_of_a_sum(op: str, dtype: Any, kind: MistakeKind | None) -> None:
    """The k of all replicas may add up to that of one device; each has chosen among its own examples."""
    scene = _scene(1.0, (1.0, 1.0), (), ({Relation(SPLIT)},), op=op, zone=REPLICA)
    k = (frozenset({Relation(PARTIAL)}), np.asarray(4, dtype), [np.asarray(2, dtype)] * 2)
    values = {"value": np.ones(4, np.float32), "parts": [np.ones(2, np.float32)] * 2}
    found = reasons._proved(replace(scene, inputs=(*scene.inputs, k), **values))
    assert (None if found is None else found[0]) is kind


@pytest.mark.parametrize(
    ("assigned", "rule", "kept"),
    [
        ("rate", "set_by_each_worker", True),
        ("iteration", "set_by_each_worker", False),
        ("iteration", "gradients_not_reduced", True),
        (None, "set_by_each_worker", True),
    ],
)
def test_a_culprit_does_not_deny_the_explanation(assigned: str | None, rule: str, kept: bool) -> None:
    """What is set between steps was not made wrong by what a step does to something else."""
    op = "AssignVariableOp"
    culprit = Culprit("train.py", 3, "apply()", op, None, "what it is", "1, found 2", (), 1, assigned)
    found = Finding("variables_match_reference", "x", observable="variables", variable="rate")
    law = Judgement("variables_match_reference", "broken", findings=(found,))
    verdict = Verdict("p", "s", (law,), explanation=Explanation(rule, "why")).seen(Looked(culprit, None, 1.0))
    assert (verdict.culprit is not None) is kept
    assert ("what is wrong was set between steps" in str(verdict)) is not kept


@pytest.mark.parametrize(
    ("op", "rule", "kept"),
    [
        ("ReadVariableOp", "gradients_not_reduced", False),
        ("ReadVariableOp", "not_broadcast", True),
        ("AssignSubVariableOp", "gradients_not_reduced", True),
    ],
)
def test_an_explanation_does_not_deny_the_culprit(
    monkeypatch: pytest.MonkeyPatch, op: str, rule: str, kept: bool
) -> None:
    """A variable that began with another value was not made wrong by the step."""
    culprit = Culprit("train.py", 3, "w = tf.Variable(1.0)", op, None, "what it is", "1, found 2", (), 1)
    monkeypatch.setattr(culprits, "_looked", lambda *args, **options: culprit)
    monkeypatch.setattr(culprits, "read_parts", lambda directory: SimpleNamespace(last=None))
    broken = Judgement("replicas_agree", "broken", findings=(Finding("replicas_agree", "x", observable="variables"),))
    verdict = Verdict("p", "s", (broken,), explanation=Explanation(rule, "why"))
    nothing: Any = None
    found = with_culprit(verdict, nothing, nothing, Path(), nothing)
    assert (found.explanation == verdict.explanation) is kept
    assert f"culprit: {culprit.where}" in str(found)
    assert "no rule reproduces" not in str(found)


@pytest.mark.parametrize(("found", "kind"), [((6.0, 8.1), WHOLE), ((6.0, 8.5), None)])
def test_a_term_that_each_replica_adds_is_known_in_16_bits(
    found: tuple[float, float], kind: MistakeKind | None
) -> None:
    """There the parts that it is added to are 10 together but for their rounding, and so is the sum."""
    scene = _scene(12.0, found, (), op="AddV2")
    part = np.float32(10.0), [np.float32(4.0), np.float32(6.1)]
    whole = np.float32(2.0), [np.float32(2.0)] * 2
    inputs = (frozenset({Relation(PARTIAL)}), *part), (frozenset({Relation(REPLICATED)}), *whole)
    told = reasons._proved(replace(scene, inputs=inputs))
    assert (told and told[0]) is kind
