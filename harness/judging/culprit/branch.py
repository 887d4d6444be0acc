"""Where replicas went different ways: an operation that some of them carried out and others did not.

A branch of Python is taken by each replica for itself. What comes of it is unlike anything in the reference, and shows
only where the replicas' values are added up.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.evidence.watched_step import REPLICA, Op
from harness.judging.culprit.alignment import Alignment, OperationNode
from harness.judging.culprit.client_step import ARRIVED, ClientStep, lines_of

_GIVEN = ("Const", *ARRIVED)


def only_some(aligned: Alignment, node: OperationNode) -> OperationNode | None:
    """The first operation before a sum over replicas that not every replica carried out, or None."""
    lines = lines_of(aligned.sides[node.client], aligned.op(node))
    found = []
    for client, side in enumerate(aligned.sides):
        sums = [op for op in side.watched.ops if op.type == aligned.op(node).type and lines_of(side, op) == lines]
        found += [
            OperationNode(client, op.number)
            for op in _before(side, sums)
            if len(carried_out_by(aligned, client, op)) > 0
        ]
    return min(found, key=lambda each: (each.number, each.client), default=None)


def carried_out_by(aligned: Alignment, client: int, op: Op) -> tuple[int, ...]:
    """The replicas, counted over all clients, that carried out what this line says; none if all of them did."""
    if op.zone != REPLICA:
        return ()
    lines = lines_of(aligned.sides[client], op)
    places = aligned.places.get(REPLICA, ())
    taken = [
        number
        for number, place in enumerate(places)
        if (REPLICA, lines) in aligned.sides[place.client].groups(REPLICA, place.index)
    ]
    return () if len(taken) == len(places) else tuple(taken)


def _before(side: ClientStep, sums: list[Op]) -> Iterator[Op]:
    """What the sums are computed from, in the replicas."""
    pending = [tensor for op in sums for tensor in op.inputs]
    seen = set(pending)
    while pending:
        op = side.producer(pending.pop())
        if op is None or op.zone != REPLICA:
            continue
        if op.type not in _GIVEN:
            yield op
        pending += [each for each in op.inputs if each not in seen]
        seen.update(op.inputs)
