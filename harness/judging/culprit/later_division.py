"""Gradients that a program divides by the number of replicas later: what uses them before that is to blame.

A mean over each replica's own examples, summed over the replicas, is too large by their number. Where the program
divides it, that is no mistake; where something else uses it undivided, the loss is right and that use is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.evidence.watched_step import Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.client_step import ARRIVED
from harness.judging.culprit.kinds import DIVISION, MistakeKind
from harness.judging.culprit.relations import REPLICATED, Relation
from simulator.agent.places import place

if TYPE_CHECKING:
    from harness.judging.culprit.walk import Walk, WrongOperation

_DIVISORS = {"RealDiv": 1, "DivNoNan": 1, "Mul": -1}
"""By type of operation the power of the replicas' number that a number has by which it divides by that."""
_GIVEN = ("Const", "Cast", *ARRIVED)


class LaterDivisions:
    """Where a program divides what comes of gradients by the number of replicas.

    Args:
        aligned: run and reference.
        walk: back through multiples, in the client whose operations are looked at.
    """

    def __init__(self, aligned: Alignment, walk: Walk) -> None:
        self._aligned = aligned
        self._walk = walk
        self._side = walk.side

    @cached_property
    def _divisions(self) -> dict[int, int]:
        """By number of each division by the number of replicas the tensor that it divides."""
        found: dict[int, int] = {}
        for op in self._side.watched.ops:
            power = _DIVISORS.get(op.type)
            if power is None or len(op.inputs) != 2 or op.differentiates:
                continue
            for at, tensor in enumerate(op.inputs) if power < 0 else [(1, op.inputs[1])]:
                # The way back is the long part, so few numbers are asked for it.
                is_number = self._is_given(tensor) and self._is_number(tensor, power)
                if is_number and self._walk.is_behind_a_gradient(op.inputs[1 - at]):
                    found[op.number] = op.inputs[1 - at]
        return found

    def _is_given(self, tensor: int) -> bool:
        """Whether it may be a number that the program gives; nothing is asked of what was not looked at."""
        op = self._side.producer(tensor)
        if op is None or op.type not in _GIVEN:
            return False
        return not op.forms or op.forms[op.outputs.index(tensor)].endswith("[]")

    def _is_number(self, tensor: int, power: int) -> bool:
        relations = self._walk.facts(tensor) or frozenset()
        single = all(value.size == 1 for value in self._side.values(tensor))
        return single and Relation(REPLICATED, power) in relations and Relation(REPLICATED) not in relations

    @cached_property
    def divided(self) -> dict[int, int]:
        """By tensor that a division makes right the number of that division: what it divides, and what that comes of.

        Gradients of the same loss are too large by the same number.
        """
        found: dict[int, int] = {}
        for number, tensor in self._divisions.items():
            output = self._walk.facts(self._side.by_number[number].outputs[0]) or frozenset()
            if Relation(REPLICATED) in output or (
                any(each.right for each in output) and not self._walk.is_behind_a_sum(tensor)
            ):
                found |= dict.fromkeys(self._walk.multiples_before(tensor), number)
        for op in self._side.watched.ops if found else ():
            known = [found[tensor] for tensor in op.inputs if tensor in found] if op.differentiates else []
            if known and not any(self._walk.is_multiple_of_right(each) for each in op.inputs if each not in found):
                found |= {output: found.get(output, known[0]) for output in op.outputs}
        return found

    def before(self, node: OperationNode) -> OperationNode | None:
        """The division of what an operation is given undivided."""
        given = (self.divided.get(tensor) for tensor in self._walk.aligned_before(node))
        return next((OperationNode(0, number) for number in given if number is not None), None)

    def after(self, node: OperationNode) -> OperationNode | None:
        """The first division of what comes of an operation that uses a sum over replicas."""
        op = self._aligned.op(node)
        if not self._divisions or not any(map(self._walk.is_behind_a_sum, op.outputs)):
            return None
        if not any(map(self._is_too_large, self._walk.aligned_before(node))):
            return None
        pending, seen = list(op.outputs), set[int]()
        while pending:
            tensor = pending.pop(0)
            for user in self._users.get(tensor, ()):
                if self._divisions.get(user.number) == tensor:
                    return OperationNode(0, user.number)
                pending += [output for output in user.outputs if output not in seen]
                seen.update(user.outputs)
        return None

    def _is_too_large(self, tensor: int) -> bool:
        return min((each.power for each in self._walk.facts(tensor) or ()), default=0) > 0

    @cached_property
    def _users(self) -> dict[int, list[Op]]:
        found: dict[int, list[Op]] = defaultdict(list)
        for op in self._side.watched.ops:
            for tensor in filter(None, op.inputs):
                found[tensor].append(op)
        return found


def used_undivided(aligned: Alignment, broken: WrongOperation) -> tuple[MistakeKind, str] | None:
    """The kind and a sentence, if an operation uses what is divided by the number of replicas elsewhere, or later."""
    if broken.division is None:
        return None
    side, division = aligned.sides[broken.node.client], aligned.op(broken.division)
    frame = side.caller(division)
    where = "the program" if frame is None else place(Path(frame.file).name, frame.line)
    then = "divides them, and this uses them undivided" if broken.apart else "divides them only after this"
    return DIVISION, f"it is given gradients that are too large by the number of replicas; {where} {then}"
