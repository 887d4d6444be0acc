"""How many examples each replica had at each step, and whether that met the conditions under which a step is proved."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from harness.evidence.step_graph import SAME_NUMBER
from harness.evidence.trace import ClientTrace, RunTrace
from harness.relations import EVEN, NONEMPTY, Met, Proof

Shares = tuple[int, ...]
_Rows = tuple[tuple[int, ...], ...]


def with_data(proof: Proof, runs: Iterable[RunTrace]) -> Proof:
    """The proof, each condition with what the examples say of it that a run consumed.

    Args:
        proof: of the program's step.
        runs: what was recorded, in parts if the run was started again: examples that the program reports, or else those
            that were seen.
    """
    if not proof.conditions or proof.sources > 1:
        return proof
    steps = [(step, shares) for run in runs for step, shares in sorted(_shares(run).items())]
    conditions = tuple(dataclasses.replace(each, met=_met(each.what, steps)) for each in proof.conditions)
    return dataclasses.replace(proof, conditions=conditions)


def met_on_mesh(proof: Proof, runs: Iterable[RunTrace]) -> Proof:
    """The proof of a step on a mesh, whose condition is met: batches of other sizes would have left it open.

    For those the function is traced again, which is seen while it is looked at.
    """
    steps = sum(len(run.clients[0].steps or run.clients[0].seen) for run in runs)
    conditions = (dataclasses.replace(each, met=Met(steps, 0)) for each in proof.conditions)
    return dataclasses.replace(proof, conditions=tuple(conditions)) if steps else proof


def _met(what: str, steps: list[tuple[int, Shares]]) -> Met | None:
    if what not in _HOLDS or not steps:
        return None
    holds = _HOLDS[what](steps[0][1])
    broken = [(step, shares) for step, shares in steps if not holds(shares)]
    return Met(len(steps), len(broken), *(broken[0] if broken else (None, None)))


_HOLDS: dict[str, Callable[[Shares], Callable[[Shares], bool]]] = {
    EVEN: lambda _: lambda shares: len(set(shares)) == 1 and shares[0] > 0,
    NONEMPTY: lambda _: lambda shares: min(shares) > 0,
    SAME_NUMBER: lambda first: lambda shares: shares == first,
}
"""By condition, and by the shares of the first step: whether those of a step meet it."""


def _shares(run: RunTrace) -> dict[int, Shares]:
    """By step the number of examples of each replica of all clients, where it is known of all of them."""
    reported = any(step.examples is not None for client in run.clients for step in client.steps)
    found: dict[int, list[Shares]] = defaultdict(list)
    for client in run.clients:
        if client.header.local_replicas:
            for step, rows in _examples(client, reported):
                found[step].append(tuple(map(len, rows)))
    expected = sum(client.header.local_replicas for client in run.clients)
    whole = {step: tuple(count for part in parts for count in part) for step, parts in found.items()}
    return {step: shares for step, shares in whole.items() if len(shares) == expected}


def _examples(client: ClientTrace, reported: bool) -> Iterator[tuple[int, _Rows]]:
    for step in client.steps if reported else client.seen:
        if step.examples is not None:
            yield step.index, step.examples
