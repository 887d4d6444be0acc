"""An operation of a run beside the reference's: what comes in and out of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.evidence.watched_step import Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.relations import Relation
from harness.judging.culprit.walk import has_right_size, is_extreme

if TYPE_CHECKING:
    import numpy as np


_NUMBERS = {2: "two", 3: "three", 4: "four"}


@dataclass(frozen=True)
class Scene:
    """An operation of the reference with the run's, and what comes in and out of them.

    Attributes:
        aligned: run and reference.
        node: the first replica's operation.
        op: the same.
        inputs: of each operand how it is related to the reference's, what that is, and what the replicas have.
        relations: of the first output that is not right.
        value: of the reference; None if none was kept.
        parts: what the replicas have.
        summed: what puts together what comes from it.
        all_seen: whether `inputs` are all that it is given.
    """

    aligned: Alignment
    node: OperationNode
    op: Op
    inputs: tuple[tuple[frozenset[Relation], np.ndarray[Any, Any], list[np.ndarray[Any, Any]]], ...]
    relations: frozenset[Relation]
    value: np.ndarray[Any, Any] | None
    parts: list[np.ndarray[Any, Any]]
    summed: Reduction | None
    all_seen: bool

    @property
    def replicas(self) -> int:
        """How many have it."""
        return len(self.parts) or self.aligned.replicas

    @property
    def all_of_them(self) -> str:
        """The same in words, as in `the two`."""
        return f"the {_NUMBERS.get(self.replicas, self.replicas)}"


@dataclass(frozen=True)
class Reduction:
    """The line that puts together what the replicas have, and whether it divides by their number."""

    line: str
    averages: bool

    @property
    def text(self) -> str:
        """As in `train.py:19 sums`."""
        return f"{self.line} {'averages' if self.averages else 'sums'}"


def scene_of(aligned: Alignment, node: OperationNode, summed: Reduction | None) -> Scene | None:
    """Both; None of what only the run does. `summed` is what puts together what comes from it."""
    number, op = aligned.truths.get(node), aligned.op(node)
    if number is None:
        return None
    theirs, nodes = aligned.reference.by_number[number], aligned.counterparts[number]
    averaged = summed is not None and summed.averages
    inputs = []
    for position, truth in enumerate(theirs.inputs):
        given = [(each.client, aligned.op(each).inputs) for each in nodes]
        if not truth or any(position >= len(each) or not each[position] for _, each in given):
            continue
        found = _values(aligned, truth, [(client, each[position]) for client, each in given])
        if found is not None:
            inputs.append(found)
    for position, truth in enumerate(theirs.outputs):
        given = [(each.client, aligned.op(each).outputs) for each in nodes]
        found = _values(aligned, truth, [(client, each[position]) for client, each in given])
        if found is not None and (is_extreme(found[0]) or not has_right_size(found[0], averaged=averaged)):
            return Scene(aligned, node, op, tuple(inputs), *found, summed, len(inputs) == len(theirs.inputs))
    return Scene(aligned, node, op, tuple(inputs), frozenset(), None, [], summed, len(inputs) == len(theirs.inputs))


def _values(
    aligned: Alignment, truth: int, given: list[tuple[int, int]]
) -> tuple[frozenset[Relation], np.ndarray[Any, Any], list[np.ndarray[Any, Any]]] | None:
    relations, values = aligned.related(truth, given), aligned.reference.values(truth)
    if relations is None:
        return None
    return relations, values[0], [each[0] for each in aligned.parts(truth, given)]
