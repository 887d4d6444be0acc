"""Statistics that batch normalization keeps on each replica, as one variable for each of them.

So those of Keras 3, which nobody averages, can be held against those of as many replicas that stand for wholes, copy by
copy. It is done where nobody has reported them, and where each of those replicas has its own, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harness.evidence.trace import STATISTICS, Array, ClientTrace, RunTrace, Step, Variable

__all__ = ["with_own_copies"]


def with_own_copies(run: RunTrace, reference: RunTrace, *others: RunTrace) -> tuple[RunTrace, ...]:
    """All of these, with such variables in place of those that they are copies of.

    Args:
        run: of several replicas.
        reference: as many replicas in one process.
        others: as the reference.
    """
    replicas = reference.header.replicas
    own = _own(run, replicas) & _own(reference, replicas)
    return (
        tuple(_split(trace, own, replicas) for trace in (run, reference, *others)) if own else (run, reference, *others)
    )


def _own(trace: RunTrace, replicas: int) -> set[str]:
    """The statistics of which each replica has another value after some step."""
    found = set()
    for steps in zip(*(client.steps for client in trace.clients), strict=False):
        if all(step.seen is not None and step.seen.variables for step in steps):
            copies = _copies(steps)
            found |= {name for name, each in copies.items() if len({copy.data.tobytes() for copy in each}) == replicas}
    return found


def _copies(steps: Sequence[Step]) -> Mapping[str, tuple[Array, ...]]:
    """By its name all copies of each variable that every client has."""
    every = [{each.name: each.copies for each in step.variables or () if each.kind == STATISTICS} for step in steps]
    names = set.intersection(*(set(each) for each in every))
    return {name: tuple(copy for each in every for copy in each[name]) for name in names}


def _split(trace: RunTrace, names: set[str], replicas: int) -> RunTrace:
    by_client = [client.steps for client in trace.clients]
    made: list[list[Step]] = [[] for _ in by_client]
    for steps in zip(*by_client, strict=False):
        copies = {name: each for name, each in _copies(steps).items() if name in names and len(each) == replicas}
        apart = tuple(
            Variable(f"{name} of replica {number}", (copy,))
            for name, each in copies.items()
            for number, copy in enumerate(each)
        )
        for step, into in zip(steps, made, strict=True):
            left = tuple(variable for variable in step.variables or () if variable.name not in copies)
            into.append(msgspec.structs.replace(step, variables=(*left, *apart) or None))
    clients = zip(trace.clients, made, strict=True)
    return RunTrace(tuple(_with_steps(client, steps) for client, steps in clients))


def _with_steps(client: ClientTrace, steps: Sequence[Step]) -> ClientTrace:
    rest = client.steps[len(steps) :]
    return msgspec.structs.replace(client, steps=(*steps, *rest))
