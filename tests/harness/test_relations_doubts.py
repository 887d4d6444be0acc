"""Programs that rules once took for right: what each rule has to leave open, or to put under a condition."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from harness.evidence.step_graph import Graph, GraphNode, StepGraph
from harness.relations.facts import COARSE, EVEN, NONEMPTY, WITHIN, Fact, FactKind, ProofCondition
from harness.relations.protocol import GraphStep, World
from harness.relations.rules import all_rules
from harness.relations.terms import ROWS, Terms
from harness.relations.walker import Walker
from tests.harness._relating import Drawing

_COUNT = Fact(FactKind.ROWS, ROWS, shape=())


def _by(
    world: World, kind: str, shape: tuple[int | None, ...], *given: Fact, dtype: str = "int32", **attributes: Any
) -> Fact:
    node = GraphNode(kind, "op", attributes=attributes, shapes=(shape,), dtypes=(dtype,))
    found = all_rules()[kind](GraphStep(node, given, world))
    return found if isinstance(found, Fact) else found[0]


def _needs(given: Fact) -> list[str]:
    return sorted({each.what for each in given.conditions})


def test_what_another_replica_needs_is_needed_where_its_value_has_come_in() -> None:
    """A replica without examples counts as one in the number of all, by which the others divide their rows."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    one, two = drawing.constant(np.int32(1)).fact, drawing.constant(np.int32(2)).fact
    rows = drawing.operand(FactKind.SPLIT, (3,)).fact
    mine = _by(world, "Maximum", (), _COUNT, one)
    total = _by(world, "CollectiveReduceV2", (), mine, two, merge_op="Add", final_op="Id")
    assert _needs(total) == [NONEMPTY]
    assert _needs(_by(world, "RealDiv", (None, 3), rows, total, dtype="float32")) == [NONEMPTY]
    only_mine = replace(one, conditions=frozenset({ProofCondition(NONEMPTY)}))
    assert not _needs(_by(world, "Mul", (None, 3), rows, only_mine))


def test_fractions_are_no_whole_numbers() -> None:
    """Stacked, joined, or put at their places: different fractions are different values."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    at = [drawing.constant(np.asarray([each], np.int32)).fact for each in range(2)]
    zero = drawing.constant(np.int32(0)).fact
    for lists in (False, True):
        tenth, fifth = (drawing.constant(np.asarray([each] if lists else each, "float32")).fact for each in (0.1, 0.2))
        stacked = [
            _by(
                world,
                *(("ConcatV2", (2,), each, tenth, zero) if lists else ("Pack", (2,), each, tenth)),
                dtype="float32",
            )
            for each in (tenth, fifth)
        ]
        assert stacked[0].kind is FactKind.REPLICATED
        assert stacked[0].scaled != stacked[1].scaled
        stitched = [_by(world, "DynamicStitch", (2,), *at, each, tenth, dtype="float32") for each in (tenth, fifth)]
        assert stitched[0].scaled != stitched[1].scaled
    counts = _by(world, "Pack", (2,), _COUNT, _COUNT, dtype="float32")
    assert counts.kind is FactKind.PARTIAL
    half = drawing.constant(np.asarray([0.5], "float32")).fact
    assert _by(world, "ConcatV2", (3,), counts, half, zero, dtype="float32").kind is FactKind.PARTIAL
    assert _by(world, "ExpandDims", (1,), _COUNT, zero, dtype="float32").kind is FactKind.PARTIAL
    assert _by(world, "ExpandDims", (1,), _COUNT, zero).kind is FactKind.SHAPE


def test_columns_that_begin_at_a_number_of_rows_are_each_replicas_own() -> None:
    """Those that begin where everybody says stay rows."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    rows = drawing.operand(FactKind.SPLIT, (9,)).fact
    zero, three = drawing.constant(np.int32(0)).fact, drawing.constant(np.int32(3)).fact
    size = drawing.constant(np.asarray([-1, 3], np.int32)).fact
    for first, kind in ((three, FactKind.SPLIT), (_COUNT, FactKind.UNKNOWN)):
        begin = _by(world, "Pack", (2,), zero, first)
        assert _by(world, "Slice", (None, 3), rows, begin, size).kind is kind


def test_of_a_vector_with_a_part_of_a_sum_nothing_is_known() -> None:
    """Its product is not that of the sums."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    at = [drawing.constant(np.asarray([each], np.int32)).fact for each in range(2)]
    two = drawing.constant(np.int32(2)).fact
    part = drawing.operand(FactKind.PARTIAL, ()).fact
    assert _by(world, "DynamicStitch", (2,), *at, part, two).kind is FactKind.UNKNOWN
    for mine, kind in ((_COUNT, FactKind.ROWS), (part, FactKind.UNKNOWN)):
        numbers = Fact(FactKind.SHAPE, shape=(2,), parts=(mine, two))
        assert _by(world, "Prod", (), numbers, at[0]).kind is kind


def _looping(*body: GraphNode) -> Walker:
    """A loop over a variable, an iterator and another value, whose body does something."""
    placeholders = tuple(GraphNode("Placeholder", name, shapes=((),), dtypes=("resource",)) for name in ("w", "i", "v"))
    decides = Graph((*placeholders, GraphNode("Less", "less", ((2, 0), (2, 0)), shapes=((),))), (0, 1, 2), ((3, 0),))
    does = Graph((*placeholders, *body), (0, 1, 2), ((0, 0), (1, 0), (2, 0)))
    walker = Walker(StepGraph("local:0", 2, graphs=(Graph((), (), ()), decides, does)), World(2, Terms()))
    walker.states["w", 0] = Fact(FactKind.REPLICATED, walker.world.terms.made("variable", "w"), shape=())
    handles = [Fact(FactKind.HANDLE, handle=(name, 0), local=at) for at, name in enumerate(("w", "iterator i"))]
    value = Fact(FactKind.REPLICATED, walker.world.terms.made("value"), shape=())
    node = GraphNode("While", "while", functions={"cond": 1, "body": 2}, shapes=((), (), ()))
    walker.told(node, (*handles, value))
    return walker


def test_what_is_assigned_in_a_loop_over_an_iterator_is_not_known() -> None:
    """Nor which batch comes after it; a variable that is only read stays what it is."""
    pulls = GraphNode("IteratorGetNext", "next", ((1, 0),), shapes=((None,),), stateful=True)
    assigns = GraphNode("AssignSubVariableOp", "assign", ((0, 0), (2, 0)), stateful=True)
    counted = []
    for body, kind in (
        ((pulls,), FactKind.REPLICATED),
        ((pulls, assigns), FactKind.UNKNOWN),
        ((assigns,), FactKind.REPLICATED),
    ):
        walker = _looping(*body)
        assert walker.states["w", 0].kind is kind, body
        counted.append(walker.pulled.get(("iterator i", 0), 0))
    assert counted[0] > 1
    assert counted[2] == 0


def test_a_function_outside_of_the_graph_is_not_known() -> None:
    """Whether or not it is said to have no state: it may be another one in another process."""
    one = Fact(FactKind.REPLICATED, shape=())
    for kind, attributes in (("PyFuncStateless", {}), ("EagerPyFunc", {}), ("Unheard", {"token": "pyfunc_0"})):
        walker = Walker(StepGraph("local:0", 2), World(2, Terms()))
        (found,) = walker.told(GraphNode(kind, "f", attributes=attributes, shapes=((),)), (one,))
        assert found.kind is FactKind.UNKNOWN
    walker = Walker(StepGraph("local:0", 2), World(2, Terms()))
    (found,) = walker.told(GraphNode("Unheard", "f", shapes=((),)), (one,))
    assert found.kind is FactKind.REPLICATED


def test_rows_of_two_batches_are_put_against_each_other_while_shards_are_even() -> None:
    """One of them may end in a single row, which one device repeats; rows of the same batch need nothing."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    rows = drawing.operand(FactKind.SPLIT, (3,)).fact
    of_another = (Fraction(1), drawing.terms.made("rows of", 1))
    for length, needed in ((rows.rows, []), (of_another, [EVEN]), (None, [EVEN])):
        other = replace(drawing.operand(FactKind.SPLIT, (3,)).fact, rows=length)
        for kind in ("AddV2", "Sub", "Mul", "RealDiv", "SquaredDifference", "TanhGrad"):
            assert _needs(_by(world, kind, (None, 3), rows, other, dtype="float32")) == needed, kind
        kind = "SoftmaxCrossEntropyWithLogits"
        assert _needs(_by(world, kind, (None,), rows, other, dtype="float32")) == needed
        matrices = [replace(each, shape=(None, 3, 3)) for each in (rows, other)]
        assert _needs(_by(world, "BatchMatMulV2", (None, 3, 3), *matrices, dtype="float32")) == needed


def test_a_part_of_a_sum_of_whole_numbers_may_not_fit_where_the_sum_does() -> None:
    """Of those without a sign nothing is known; of others while none is too large; of counts that is so."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    axes = drawing.constant(np.asarray([0, 1], np.int32)).fact
    rows = replace(drawing.operand(FactKind.SPLIT, (3,)).fact, scale=Fraction(1))
    total = _by(world, "Sum", (), rows, axes)
    bits = _by(world, "Cast", (None, 3), rows, SrcT="bool", DstT="int32")
    hits = _by(world, "Sum", (), bits, axes)
    tokens = replace(total, term=world.terms.multiplied([(Fraction(1), ROWS), (Fraction(1), ROWS)])[1])
    many = replace(hits, scale=Fraction(1 << 24))
    for given, needed in ((total, [WITHIN]), (hits, []), (tokens, []), (many, [WITHIN])):
        assert given.kind is FactKind.PARTIAL
        for target in ("float32", "int64"):
            assert _needs(_by(world, "Cast", (), given, SrcT="int32", DstT=target)) == needed
        for source, target in (("int32", "uint32"), ("uint32", "float32"), ("int32", "int16")):
            assert _by(world, "Cast", (), given, SrcT=source, DstT=target).kind is FactKind.UNKNOWN
    ones = _by(world, "OnesLike", (None, 3), rows)
    rounded = _by(world, "Cast", (None, 3), replace(ones, scale=Fraction(1 << 16)), SrcT="float32", DstT="int32")
    large = _by(world, "Sum", (), rounded, axes)
    assert _needs(_by(world, "Cast", (), large, SrcT="int32", DstT="float32")) == [WITHIN]
    assert not _needs(_by(world, "Cast", (), total, SrcT="float32", DstT="float64"))
    for scale, needed in ((1, []), (1 << 24, [WITHIN])):
        counted = replace(_COUNT, scale=Fraction(scale))
        assert _needs(_by(world, "Cast", (), counted, SrcT="int32", DstT="float32")) == needed


def test_what_is_another_number_in_16_bits_than_on_one_device_has_a_range() -> None:
    """Parts of a sum, counts and multiples; neither rows that are one device's, nor the same with 32 bits."""
    drawing = Drawing(0)
    axes = drawing.constant(np.asarray([0], np.int32)).fact
    rows = replace(drawing.operand(FactKind.SPLIT, (3,)).fact, scale=Fraction(1))
    for replicas, dtype, needed in (
        (2, "float16", [COARSE]),
        (2, "bfloat16", [COARSE]),
        (2, "float32", []),
        (1, "float16", []),
    ):
        walker = Walker(StepGraph("local:0", replicas), World(replicas, drawing.terms))

        def told(kind: str, *given: Fact, walker: Walker = walker, dtype: str = dtype) -> Fact:
            return walker.told(GraphNode(kind, "op", shapes=(given[0].shape,), dtypes=(dtype,)), given)[0]

        assert _needs(told("Sum", rows, axes)) == needed
        assert _needs(told("Identity", _COUNT)) == needed
        assert _needs(told("Identity", replace(rows, scale=Fraction(2)))) == needed
        assert not _needs(told("Neg", rows))


def test_zeros_that_make_a_sum_larger_are_not_forgotten() -> None:
    """What is added up of it afterwards is as often there; zeros that are not larger make no difference."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    given = replace(drawing.operand(FactKind.REPLICATED, (1, 3)).fact, scale=Fraction(1))
    sums = []
    for count in (1, 2, 3):
        noise, zero = drawing.operand(FactKind.REPLICATED, (count, 3)).fact, drawing.constant(np.float32(0)).fact
        zeros = _by(world, "Mul", (count, 3), noise, zero, dtype="float32")
        larger = _by(world, "AddV2", (count, 3), given, zeros, dtype="float32")
        back = _by(world, "Sub", (count, 3), _by(world, "AddV2", (count, 3), given, noise), noise, dtype="float32")
        assert back.scaled != given.scaled
        sums.append((larger.scaled, _by(world, "Einsum", (3,), larger, dtype="float32", equation="rj->j").scaled))
    assert sums[0][0] == given.scaled
    assert len({each[1] for each in sums}) == 3
    rows = drawing.operand(FactKind.SPLIT, (3,)).fact
    nothing = _by(world, "ZerosLike", (None, 3), rows, dtype="float32")
    assert _by(world, "AddV2", (None, 3), rows, nothing, dtype="float32").scaled == rows.scaled
