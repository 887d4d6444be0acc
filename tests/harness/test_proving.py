"""From graphs to proofs: what is followed, what is asked of the surroundings, and what is never claimed."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from harness.evidence.step_graph import Argument, Graph, GraphNode, Output, ReportedValue, StepGraph
from harness.evidence.trace import Array
from harness.relations import Proof, proof_of
from harness.relations.facts import Fact, FactKind
from harness.relations.protocol import World
from harness.relations.terms import Terms
from harness.relations.walker import Walker

_FLOAT = "float32"


def _node(kind: str, name: str, inputs: list[tuple[int, int]], shape: Any, **attributes: Any) -> GraphNode:
    shapes = () if shape is None else (tuple(shape),)
    return GraphNode(kind, name, tuple(inputs), attributes, shapes=shapes, dtypes=(_FLOAT,) * len(shapes))


def _number(value: Any, name: str = "c") -> GraphNode:
    array = np.asarray(value)
    return GraphNode("Const", name, shapes=(array.shape,), dtypes=(str(array.dtype),), value=Array.of(array))


def _step(
    copies: int,
    *,
    divide: float,
    mean: bool = False,
    reduce: bool = True,
    seed: int = 0,
    whole: bool = False,
    final: str = "Id",
) -> StepGraph:
    """A variable that loses the sum of the examples, divided by a number; each replica does the same.

    With `whole` no replica has rows of its own: the batch was never distributed.
    """
    nodes: list[GraphNode] = []
    arguments: list[Argument] = []
    inputs: list[int] = []

    def add(node: GraphNode) -> int:
        nodes.append(node)
        return len(nodes) - 1

    rows = [tuple(range(4 // copies * at, 4 // copies * (at + 1))) for at in range(copies)]
    x: list[int] = []
    w: list[int] = []
    for at in range(copies):
        replica = at if copies > 1 else None
        if whole and at:
            x.append(x[0])
        else:
            x.append(add(_node("Placeholder", f"x{at}", [], (None, 3))))
            mine = Argument("example", "argument 0", None, rows=tuple(range(4)))
            arguments.append(mine if whole else Argument("example", "argument 0", replica, rows=rows[at]))
            inputs.append(x[-1])
        w.append(add(_node("Placeholder", f"w{at}", [], ())))
        held = "mirrored" if copies > 1 else "plain"
        arguments.append(Argument("variable", "w", replica, held, "MEAN", digest=seed))
        inputs.append(w[-1])
    axis = add(_number(np.asarray([0], np.int32)))
    by = add(_number(np.float32(divide), "by"))
    parts = []
    for at in range(copies):
        total = add(_node("Mean" if mean else "Sum", f"replica_{at}/total", [(x[at], 0), (axis, 0)], (3,)))
        parts.append(add(_node("RealDiv", f"replica_{at}/part", [(total, 0), (by, 0)], (3,))))
    size = add(_number(np.int32(copies)))
    for at in range(copies):
        given = parts[at]
        if copies > 1 and reduce:
            given = add(
                _node("CollectiveReduceV2", f"r{at}", [(given, 0), (size, 0)], (3,), merge_op="Add", final_op=final)
            )
        add(_node("AssignSubVariableOp", f"a{at}", [(w[at], 0), (given, 0)], None))
    return StepGraph(
        "local:0",
        copies,
        graphs=(Graph(tuple(nodes), tuple(inputs), ()),),
        arguments=tuple(arguments),
        reported=(),
    )


def _proof(*clients: StepGraph, alone: StepGraph | None = None) -> Proof:
    return proof_of(clients, alone or _step(1, divide=4), program="p", strategy="s")


@pytest.mark.parametrize("replicas", [2, 4])
def test_a_sum_over_the_global_batch_is_right_for_every_batch(replicas: int) -> None:
    """Parts of a sum, divided by the same number and added up."""
    proof = _proof(_step(replicas, divide=4))
    assert proof.status == "proved"
    assert proof.conditions == ()
    assert proof


def test_a_mean_divided_by_the_replicas_is_right_under_a_condition() -> None:
    """The condition is that shards are even; the factor cancels."""
    proof = _proof(_step(2, divide=2, mean=True), alone=_step(1, divide=1, mean=True))
    assert proof.status == "conditional"
    assert [each.what for each in proof.conditions] == ["even shards"]


@pytest.mark.parametrize(
    ("run", "alone"),
    [
        (_step(2, divide=2), _step(1, divide=4)),
        (_step(2, divide=8), _step(1, divide=4)),
        (_step(2, divide=1, mean=True), _step(1, divide=1, mean=True)),
        (_step(2, divide=4, reduce=False), _step(1, divide=4)),
        (_step(2, divide=4, seed=3), _step(1, divide=4)),
    ],
    ids=["twice", "half", "mean of means", "not reduced", "another start"],
)
def test_what_is_wrong_is_not_proved(run: StepGraph, alone: StepGraph) -> None:
    """Neither with a factor, nor unreduced, nor from another beginning."""
    proof = _proof(run, alone=alone)
    assert proof.status == "open"
    assert proof.suspects or proof.reasons
    assert not proof


def _changed(traced: StepGraph, **changes: Any) -> StepGraph:
    return msgspec.structs.replace(traced, **changes)


def test_replicas_have_to_do_the_same() -> None:
    """A sum of two things that are each right in their own way is not followed."""
    right = _step(2, divide=4)
    nodes = list(right.graphs[0].nodes)
    at = next(number for number, node in enumerate(nodes) if node.name == "replica_1/part")
    nodes.append(_number(np.float32(4.0), "mine"))
    other = _node("Mul", "replica_1/part", [nodes[at].inputs[0], (len(nodes), 0)], (3,))
    nodes[at] = other
    nodes.append(_number(np.float32(0.25), "mine"))
    graph = Graph(tuple(nodes), right.graphs[0].inputs, ())
    proof = _proof(_changed(right, graphs=(graph,)))
    assert "the replicas do not all add up the same" in proof.reasons


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"changed": ("AssignVariableOp of w",)}, "outside of the function"),
        ({"reported": (ReportedValue("loss", 7),)}, "what is reported"),
        ({"why_not": "it trains eagerly"}, "it trains eagerly"),
        ({"outputs": (Output("output 0", (0,)),)}, "other results"),
    ],
)
def test_the_surroundings_have_to_be_the_same(changes: dict[str, Any], reason: str) -> None:
    """What happens outside of the function, what is reported of it, and what it returns."""
    proof = _proof(_changed(_step(2, divide=4), **changes))
    assert proof.status == "open"
    assert any(reason in each for each in proof.reasons)


def test_of_a_batch_that_was_never_distributed_every_replica_has_all_of_it() -> None:
    """Parts that are added up are twice too much; their mean is right."""
    assert _proof(_step(2, divide=4, whole=True)).suspects
    assert not _proof(_step(2, divide=4, whole=True, final="Div")).suspects


def test_a_batch_that_was_never_distributed_is_the_one_of_one_device() -> None:
    """Each worker reads its own: where they differ, a mean over them is not followed."""
    run = _step(2, divide=4, whole=True, final="Div")
    mine = [msgspec.structs.replace(each, rows=(0, 1)) if each.kind == "example" else each for each in run.arguments]
    assert "a batch that is not distributed" in " ".join(_proof(_changed(run, arguments=tuple(mine))).reasons)


def _pulling(copies: int, *, whole: bool) -> StepGraph:
    """As `_step`, from an iterator: distributed, or one for all, of which each replica asks for a batch."""
    run = _step(copies, divide=4, whole=whole)
    nodes, arguments, pulled = list(run.graphs[0].nodes), list(run.arguments), []
    for place, argument in enumerate(run.arguments):
        if argument.kind == "example":
            at = run.graphs[0].inputs[place]
            nodes.append(_node("Placeholder", f"i{at}", [], ()))
            nodes[at] = GraphNode(
                "IteratorGetNext", f"g{at}", ((len(nodes) - 1, 0),), shapes=((None, 3),), stateful=True
            )
            arguments[place] = Argument("iterator", "argument 0", argument.replica)
            pulled.append(Argument("example", "iterator 0, value 0", argument.replica or 0, rows=argument.rows))
    iterators = iter(at for at, node in enumerate(nodes) if node.name.startswith("i"))
    kinds = zip(run.graphs[0].inputs, arguments, strict=True)
    inputs = tuple(next(iterators) if each.kind == "iterator" else at for at, each in kinds)
    graph = Graph(tuple(nodes), inputs, ())
    return _changed(run, graphs=(graph,), arguments=tuple(arguments), pulled=tuple(pulled))


def test_an_iterator_that_was_never_distributed_gives_all_of_a_batch() -> None:
    """The same for one that is pulled in the graph."""
    alone = _pulling(1, whole=False)
    assert _proof(_pulling(2, whole=False), alone=alone).status == "proved"
    assert _proof(_pulling(2, whole=True), alone=alone).suspects


def test_other_examples_than_on_one_device_are_not_followed() -> None:
    """The first batch shows it."""
    run = _step(2, divide=4)
    arguments = tuple(
        each if each.kind != "example" else Argument("example", each.name, each.replica, rows=(9, 9))
        for each in run.arguments
    )
    proof = _proof(_changed(run, arguments=arguments))
    assert any("first batch" in each for each in proof.reasons)


def test_an_operation_without_a_rule_is_named() -> None:
    """What it gives may be right."""

    def strange(traced: StepGraph) -> StepGraph:
        nodes = tuple(
            node
            if not node.name.endswith("total")
            else GraphNode("Unheard", node.name, node.inputs, shapes=((3,),), dtypes=(_FLOAT,))
            for node in traced.graphs[0].nodes
        )
        return _changed(traced, graphs=(Graph(nodes, traced.graphs[0].inputs, ()),))

    proof = _proof(strange(_step(2, divide=4)), alone=strange(_step(1, divide=4)))
    assert proof.status == "open"
    assert proof.open_operations == ("Unheard",)


def test_a_stateful_operation_that_nobody_knows_is_no_part_of_a_proof() -> None:
    """It may do anything."""
    run = _step(2, divide=4)
    nodes = (*run.graphs[0].nodes, GraphNode("EagerPyFunc", "f", stateful=True))
    proof = _proof(_changed(run, graphs=(Graph(nodes, run.graphs[0].inputs, ()),)))
    assert proof.reasons == ("what EagerPyFunc does is not known",)


def _ratio(copies: int, sources: tuple[int, int]) -> StepGraph:
    """The sum of the examples times how many they are by how many another argument has."""
    nodes: list[GraphNode] = [_number(np.asarray([0], np.int32)), _number(np.int32(copies))]
    arguments, inputs = [], []
    for at in range(copies):
        replica = at if copies > 1 else None
        rows = tuple(range(4 // copies * at, 4 // copies * (at + 1)))
        first = len(nodes)
        nodes += [_node("Placeholder", f"{name}{at}", [], (None,)) for name in "xz"]
        nodes.append(_node("Placeholder", f"w{at}", [], ()))
        nodes += [_node("Size", f"replica_{at}/{name}", [(first + of, 0)], ()) for of, name in enumerate("xz")]
        nodes.append(_node("RealDiv", f"replica_{at}/ratio", [(first + 3, 0), (first + 4, 0)], ()))
        nodes.append(_node("Sum", f"replica_{at}/sum", [(first, 0), (0, 0)], ()))
        nodes.append(_node("Mul", f"replica_{at}/part", [(first + 5, 0), (first + 6, 0)], ()))
        given = first + 7
        if copies > 1:
            given += 1
            attributes = {"merge_op": "Add", "final_op": "Id"}
            nodes.append(_node("CollectiveReduceV2", f"r{at}", [(first + 7, 0), (1, 0)], (), **attributes))
        nodes.append(_node("AssignSubVariableOp", f"a{at}", [(first + 2, 0), (given, 0)], None))
        for place, source in enumerate(sources):
            arguments.append(Argument("example", f"argument {place}", replica, rows=rows, source=source))
        arguments.append(Argument("variable", "w", replica, "mirrored" if copies > 1 else "plain", "MEAN"))
        inputs += [first, first + 1, first + 2]
    graph = Graph(tuple(nodes), tuple(inputs), ())
    return StepGraph("local:0", copies, graphs=(graph,), arguments=tuple(arguments), reported=())


def test_batches_of_two_iterators_are_not_taken_for_equally_long() -> None:
    """In the first step they may be."""
    together = _proof(_ratio(2, (3, 3)), alone=_ratio(1, (5, 5)))
    assert [each.what for each in together.conditions] == ["no empty shard"]
    apart = _proof(_ratio(2, (3, 4)), alone=_ratio(1, (5, 6)))
    assert [each.what for each in apart.conditions] == ["even shards"]
    mixed = _proof(_ratio(2, (3, 3)), alone=_ratio(1, (5, 6)))
    assert "the function's examples do not come together as they do on one device" in mixed.reasons


def test_two_batches_of_an_iterator_are_not_taken_for_equally_long() -> None:
    """The second one may be the last."""
    walker = Walker(_step(2, divide=4), World(2, Terms()))
    handle = Fact(FactKind.HANDLE, handle=("iterator argument 0", 0), local=1, replicas=frozenset({0}))
    node = GraphNode("IteratorGetNext", "next", shapes=((None, 3), (None,)), stateful=True)
    first, second = walker.told(node, (handle,)), walker.told(node, (handle,))
    assert first[0].rows == first[1].rows
    assert first[0].rows != second[0].rows


def test_of_random_numbers_nothing_is_accused() -> None:
    """What is wrong besides cannot be shown by numbers: those of replicas differ from one device's by nature."""
    run = _step(2, divide=2)
    assert any(each.definite for each in _proof(run).suspects)
    nodes = [*run.graphs[0].nodes, _number(np.asarray([3], np.int32), "shape")]
    nodes.append(_node("RandomStandardNormal", "noise", [(len(nodes) - 1, 0)], (3,)))
    proof = _proof(_changed(run, graphs=(_with_noise(run, nodes),)))
    assert proof.suspects
    assert not any(each.definite for each in proof.suspects)
    assert any("random numbers" in each for each in proof.reasons)


def _with_noise(run: StepGraph, nodes: list[GraphNode]) -> Graph:
    """The parts of each replica, with noise."""
    noise = len(nodes) - 1
    for at, node in enumerate(nodes):
        if node.name.endswith("part"):
            nodes.append(msgspec.structs.replace(node, name=f"{node.name}/plain"))
            nodes[at] = _node("AddV2", node.name, [(len(nodes) - 1, 0), (noise, 0)], (3,))
    return Graph(tuple(nodes), run.graphs[0].inputs, ())


def test_json_has_the_promised_keys() -> None:
    """Of a proof that is open, and of one that is not."""
    for proof in (_proof(_step(2, divide=4)), _proof(_step(2, divide=2))):
        assert {"status", "conditions", "culprit", "open_operations"} <= set(proof.to_json())
        assert proof.text()
