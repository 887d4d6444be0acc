"""Statistics that batch normalization keeps on each replica, as their mean.

Strategies average those of tf_keras when they are read, and nobody averages those of Keras 3. So what is held against
the reference is their mean, where nobody has reported them and the reference knows that each replica has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harness.evidence.trace import STATISTICS, Array, ClientTrace, RunTrace, Step, Variable


def with_means(run: RunTrace, *references: RunTrace) -> tuple[RunTrace, ...]:
    """All of these, with such variables in place of the copies that are averaged.

    Args:
        run: of several replicas.
        references: one, and others that differ from it by noise.
    """
    if not own_statistics(references[0]):
        return (run, *references)
    own = {
        name for steps in _by_step(run) for name, copies in _copies(steps).items() if len(set(map(_bits, copies))) > 1
    }
    return tuple(_averaged(trace, own) for trace in (run, *references)) if own else (run, *references)


def own_statistics(reference: RunTrace) -> bool:
    """Whether it normalises for each replica by itself: by the batches of each, or as one of several wholes."""
    return reference.header.replicas > 1 or any(
        draw.kind == "statistics" for seen in reference.clients[0].seen for draw in seen.draws
    )


def _by_step(trace: RunTrace) -> list[tuple[Step, ...]]:
    """The steps of all clients together."""
    return list(zip(*(client.steps for client in trace.clients), strict=False))


def _bits(copy: Array) -> bytes:
    return copy.data.tobytes()


def _copies(steps: Sequence[Step]) -> Mapping[str, tuple[Array, ...]]:
    """By its name all copies of each of the statistics that every client has."""
    if any(step.seen is None or not step.seen.variables for step in steps):
        return {}
    every = [{each.name: each.copies for each in step.variables or () if each.kind == STATISTICS} for step in steps]
    names = set.intersection(*(set(each) for each in every))
    return {name: tuple(copy for each in every for copy in each[name]) for name in names}


def _averaged(trace: RunTrace, names: set[str]) -> RunTrace:
    made: list[list[Step]] = [[] for _ in trace.clients]
    for steps in _by_step(trace):
        copies = {name: each for name, each in _copies(steps).items() if name in names}
        means = tuple(Variable(f"{name}, mean of replicas", (_mean(each),)) for name, each in copies.items())
        for step, into in zip(steps, made, strict=True):
            left = tuple(variable for variable in step.variables or () if variable.name not in copies)
            into.append(msgspec.structs.replace(step, variables=(*left, *means) or None))
    return RunTrace(tuple(map(_with_steps, trace.clients, made)))


def _mean(copies: Sequence[Array]) -> Array:
    import numpy as np

    arrays = [copy.numpy() for copy in copies]
    return Array.of(np.mean([array.astype(np.float64) for array in arrays], axis=0).astype(arrays[0].dtype))


def _with_steps(client: ClientTrace, steps: Sequence[Step]) -> ClientTrace:
    return msgspec.structs.replace(client, steps=(*steps, *client.steps[len(steps) :]))
