"""Programs that rules once took for right: what each rule has to leave open, or to put under a condition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.evidence.traced import Node
from harness.relations.facts import NONEMPTY, Condition, Fact, Kind
from harness.relations.protocol import Step, World
from harness.relations.rules import all_rules
from harness.relations.terms import ROWS
from tests.harness._relating import Drawing

_COUNT = Fact(Kind.ROWS, ROWS, shape=())


def _by(
    world: World, kind: str, shape: tuple[int | None, ...], *given: Fact, dtype: str = "int32", **attributes: Any
) -> Fact:
    node = Node(kind, "op", attributes=attributes, shapes=(shape,), dtypes=(dtype,))
    found = all_rules()[kind](Step(node, given, world))
    return found if isinstance(found, Fact) else found[0]


def _needs(given: Fact) -> list[str]:
    return sorted({each.what for each in given.conditions})


def test_what_another_replica_needs_is_needed_where_its_value_has_come_in() -> None:
    """A replica without examples counts as one in the number of all, by which the others divide their rows."""
    drawing = Drawing(0)
    world = World(2, drawing.terms)
    one, two = drawing.constant(np.int32(1)).fact, drawing.constant(np.int32(2)).fact
    rows = drawing.operand(Kind.SPLIT, (3,)).fact
    mine = _by(world, "Maximum", (), _COUNT, one)
    total = _by(world, "CollectiveReduceV2", (), mine, two, merge_op="Add", final_op="Id")
    assert _needs(total) == [NONEMPTY]
    assert _needs(_by(world, "RealDiv", (None, 3), rows, total, dtype="float32")) == [NONEMPTY]
    only_mine = replace(one, conditions=frozenset({Condition(NONEMPTY)}))
    assert not _needs(_by(world, "Mul", (None, 3), rows, only_mine))
