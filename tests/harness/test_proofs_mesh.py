"""Proofs of steps on a mesh: tensor-parallel layers are proved, and what a graph on a mesh does not say is open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import verify
from harness.evidence.step_graph import Graph, GraphNode, StepGraph
from harness.proofs import prove
from harness.relations.meshes import doubts_of_mesh

_PROGRAMS = Path(__file__).parents[2] / "tools" / "trying" / "programs" / "dtensor.py"


_VARIABLE = GraphNode("Placeholder", "variable")


def _graph(*nodes: GraphNode, called: tuple[GraphNode, ...] = ()) -> StepGraph:
    """A step whose first node is a variable's handle; the second graph is what it may call, with that handle too."""
    graphs = [Graph((_VARIABLE, *each), (0,), ()) for each in (nodes, called)]
    return StepGraph("local:0", 1, graphs=tuple(graphs))


def _calls(kind: str) -> GraphNode:
    return GraphNode(kind, "call", ((0, 0),), functions={"f": 1})


_READ = GraphNode("ReadVariableOp", "read", ((0, 0),))
_WRITTEN = GraphNode("AssignSubVariableOp", "written", ((0, 0), (1, 0)))
_ALIAS, _READ_BY_ALIAS = GraphNode("Identity", "alias", ((0, 0),)), GraphNode("ReadVariableOp", "again", ((2, 0),))
_ADAM = GraphNode("ResourceApplyAdam", "adam", ((0, 0), (1, 0)))


@pytest.mark.parametrize(
    ("graphs", "said"),
    [
        ([_graph(_READ, _WRITTEN)], []),
        ([_graph(_READ, _WRITTEN, _READ)], ["read after it was written"]),
        ([_graph(_READ, _ADAM, _READ)], ["read after it was written"]),
        ([_graph(_WRITTEN, _ALIAS, _READ_BY_ALIAS)], ["read after it was written"]),
        ([_graph(_calls("PartitionedCall"), _READ, called=(_WRITTEN,))], ["read after it was written"]),
        ([_graph(_WRITTEN, _calls("PartitionedCall"), called=(_READ,))], ["read after it was written"]),
        ([_graph(_calls("While"), called=(_READ, _WRITTEN))], ["read after it was written"]),
        ([_graph(_calls("While"), _WRITTEN, called=(_READ,))], []),
        ([_graph(_READ, _calls("PartitionedCall"), called=(_READ, _WRITTEN))], []),
        ([_graph(GraphNode("StatelessRandomUniformV2", "drawn"))], ["random numbers"]),
        ([_graph(_READ), _graph(_READ)], ["each client has a graph of its own"]),
    ],
)
def test_what_a_graph_on_a_mesh_does_not_say(graphs: list[StepGraph], said: list[str]) -> None:
    """Old values of variables, numbers that depend on layouts, and what other clients give."""
    found = list(doubts_of_mesh(graphs))
    assert len(found) == len(said)
    assert all(words in each for words, each in zip(said, found, strict=True))


@pytest.mark.full
@pytest.mark.parametrize("name", ["right", "right_attention", "right_clipped", "right_momentum_by_value"])
def test_tensor_parallel_layers_are_proved(name: str) -> None:
    """Columns and rows of an MLP, heads of attention: one graph means the same on a mesh, for batches of one size."""
    proof = prove(f"{_PROGRAMS}:train_{name}", "dtensor-2x2")
    assert proof.status == "conditional", str(proof)
    assert [each.what.partition(",")[0] for each in proof.conditions] == [
        "every batch has as many examples as the first one"
    ]


@pytest.mark.full
def test_a_run_meets_what_its_proof_needs() -> None:
    """Batches of another size would have been another graph, and left the proof open: nothing is left to `--strict`."""
    verdict = verify(f"{_PROGRAMS}:train_right", "dtensor-2", prove=True, explain=False)
    assert verdict.proof is not None
    assert verdict.proof.status == "conditional", str(verdict)
    assert verdict.proof.is_met
    assert "as in all 3 steps of this run" in str(verdict)


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("divided_by_axis", "dtensor-2x2"),
        ("right_dropout", "dtensor-2x2"),
    ],
)
def test_what_is_wrong_or_drawn_is_not_proved(name: str, strategy: str) -> None:
    """A number of devices in the graph has its line."""
    proof = prove(f"{_PROGRAMS}:train_{name}", strategy)
    assert proof.status == "open", str(proof)
    if name == "divided_by_axis":
        (suspect,) = {(each.place.line, each.place.source) for each in proof.suspects if each.place is not None}
        assert suspect[1].endswith("# guilty")


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        ("row_parallel_not_reduced", "dtensor-2x2"),
        ("dropout_along_model", "dtensor-1x2"),
        ("copies_differ", "dtensor-2"),
    ],
)
def test_copies_that_differ_refute_a_step_with_their_line(name: str, strategy: str) -> None:
    """Parts of a product that nobody has summed, a mask of each device, weights of each device: no one tensor."""
    culprit = prove(f"{_PROGRAMS}:train_{name}", strategy).culprit
    assert culprit is not None
    assert culprit.place is not None
    place = culprit.place
    lines = _PROGRAMS.read_text(encoding="utf-8").splitlines()[place.line - 1 : place.line + 2]
    assert place.source in lines[0]
    assert "guilty" in "".join(lines)


@pytest.mark.full
def test_a_later_step_is_refuted_too_and_equal_copies_are_not() -> None:
    """Copies of the second batch differ; where all devices have equal ones, nothing is said of them."""
    wrong = prove(_later_copies_differ, "dtensor-1x2")
    assert wrong.status == "refuted"
    assert wrong.culprit is not None
    assert wrong.culprit.place is not None
    assert "dtensor.pack" in wrong.culprit.place.source
    assert prove(_copies_are_equal, "dtensor-1x2").status != "refuted"


def _later_copies_differ(strategy: Any, record: Any) -> None:
    _packed_rate(strategy, record, [(0.1, 0.1), (0.1, 0.2)])


def _copies_are_equal(strategy: Any, record: Any) -> None:
    _packed_rate(strategy, record, [(0.1, 0.1), (0.2, 0.2)])


def _packed_rate(strategy: Any, record: Any, rates: Any) -> None:
    """Two steps, with a learning rate that each of the two devices is given by itself."""
    import tensorflow as tf
    from tensorflow.experimental import dtensor

    whole = dtensor.Layout.replicated(strategy.mesh, rank=2)
    single = dtensor.Layout.replicated(strategy.mesh, rank=0)
    weights = dtensor.DVariable(dtensor.relayout(tf.ones([4, 2]), whole), name="weights")

    @tf.function
    def step(x: Any, rate: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.matmul(x, weights) ** 2)
        weights.assign_sub(rate * tape.gradient(loss, weights))
        return loss

    for of_devices in rates:
        x = dtensor.relayout(tf.ones([8, 4]), whole)
        rate = dtensor.pack([tf.constant(each) for each in of_devices[: strategy.mesh.size]], single)
        record.step(loss=step(x, rate), variables=[weights])
