"""Runs a step on a few rows: to show that it is wrong, or that what was inferred of it is not contradicted."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from harness.evidence.traced import Traced
from harness.recording.tracing import Batch, Outcome
from harness.relations import NONEMPTY
from harness.relations.proof import Counterexample, Proof, Suspect
from harness.running.traced import Graphs, try_batches
from harness.subject.program import Program
from harness.subject.strategies import StrategyCase
from simulator import LockstepError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["confirmed", "refuted"]

_SHARE = 1e-2
"""A difference counts from this share of what the step changes on one device: rounding is far from it."""
_BESIDE = 1e-2
"""Of what changes most, a change counts from this share on."""
_TRACING_SECONDS_MAX = 10.0
"""A function of which tracing takes longer is run as it has been traced."""
_BATCHES_MIN = 2
"""So many batches have to be carried out."""
_CONTRADICTED = "what was inferred of the graph is contradicted by a batch: a rule, or the graph, is not what it seems"
_PLAIN = 1e-5
"""And from this share of the value itself."""


_Told = dict[tuple[int, ...], Counterexample | None]
"""By the rows of each replica, of each batch that was carried out, what it shows to be wrong."""


def refuted(proof: Proof, graphs: Graphs, program: Program, case: StrategyCase, *, seed: int, timeout: float) -> Proof:
    """The proof, refuted if a batch shows that what may be wrong is.

    Only values that a program reports, or trains, refute it; whatever else it keeps may be its own affair.
    """
    if proof.status != "open" or not any(suspect.definite for suspect in proof.suspects):
        return proof
    even, uneven = list(_shards(graphs, case.replicas)), list(_uneven(graphs, case.replicas))
    shards = even + uneven
    if not shards:
        return proof
    real = _real(graphs, case.replicas)
    told = _told(graphs, [*shards, *real], (), program, case, seed=seed, timeout=timeout)
    # It may be made for as many rows as it has.
    shown = [] if _agree(told, real) else _shown(told, even)
    shown = shown or _shown(told, uneven)
    if not shown:
        return proof
    definite = [each for each in proof.suspects if each.definite]
    rest = [each for each in proof.suspects if each is not definite[0]]
    first = dataclasses.replace(definite[0], counterexample=shown[0])
    return dataclasses.replace(proof, status="refuted", suspects=(first, *rest))


def confirmed(
    proof: Proof, graphs: Graphs, program: Program, case: StrategyCase, *, seed: int, timeout: float
) -> Proof:
    """The proof of a right step, held against a few batches; refuted if one of them shows that it is wrong.

    Rules may say too much, and a program may make another graph where the number of rows is known: the function is run
    as the program runs it. What cannot be carried out says nothing.
    """
    if not proof:
        return proof
    conditions = {each.what for each in proof.conditions}
    even, uneven = list(_shards(graphs, case.replicas)), list[tuple[int, ...]]()
    if conditions <= {NONEMPTY}:
        uneven = list(_uneven(graphs, case.replicas, anyhow=True))
    shards = [*even, *uneven]
    if not shards:
        return proof
    # Tracing takes its time: only the largest are traced for just so many rows, and of large models none.
    quick = max(each.seconds for each in (*graphs.clients, graphs.reference)) < _TRACING_SECONDS_MAX
    anew = [*even[-1:], *uneven[-1:]] if quick else []
    real = _real(graphs, case.replicas)
    told = _told(graphs, [*shards, *real], anew, program, case, seed=seed, timeout=timeout)
    for kind in (even, uneven):
        contradicted = [found for each in kind if (found := told.get(each)) is not None]
        if not contradicted:
            continue
        if not (shown := _shown(told, kind)) or (kind is even and _agree(told, real)):
            why = f"{contradicted[0].text}, and other batches do not say so"
            return dataclasses.replace(proof, status="open", conditions=(), reasons=(why,))
        wrong = Suspect(None, _CONTRADICTED, shown[0].value, definite=True, counterexample=shown[0])
        return dataclasses.replace(proof, status="refuted", conditions=(), suspects=(wrong,))
    return dataclasses.replace(proof, tried=tuple(each for each in shards if each in told))


def _real(graphs: Graphs, replicas: int) -> list[tuple[int, ...]]:
    """As many rows as each replica has of the first batch, if that is known and they have equally many."""
    rows = _rows(graphs)
    counts = tuple(len(rows.get(at, ())) for at in range(replicas))
    return [counts] if counts[0] and len(set(counts)) == 1 and not _has_iterator(graphs) else []


def _told(
    graphs: Graphs,
    shards: Sequence[tuple[int, ...]],
    anew: Container[tuple[int, ...]],
    program: Program,
    case: StrategyCase,
    *,
    seed: int,
    timeout: float,
) -> _Told:
    """Carry out batches of so many rows for each replica; those that cannot be say nothing."""
    every = list(dict.fromkeys(shards))
    try:
        tried = try_batches(program, case, *_batches(graphs, every, anew), seed=seed, timeout=timeout)
    except LockstepError:
        return {}
    told: _Told = {}
    for number, (lengths, alone) in enumerate(zip(every, tried.reference, strict=False)):
        runs = [each[number] for each in tried.clients if len(each) > number]
        if runs and all(each.failed is None for each in (*runs, alone)):
            found = _differs(graphs, runs, alone)
            told[lengths] = None if found is None else Counterexample(lengths, *found)
    return told


def _agree(told: _Told, shards: Sequence[tuple[int, ...]]) -> bool:
    """Whether these were carried out, and are right."""
    return bool(shards) and all(each in told and told[each] is None for each in shards)


def _shown(told: _Told, shards: Sequence[tuple[int, ...]]) -> list[Counterexample]:
    """The batches that show it, from the smallest on, if the largest does."""
    found = [told[each] for each in shards if each in told]
    # Of two examples statistics may be nothing but rounding; what is wrong is so of the largest batch as well.
    if len(found) < _BATCHES_MIN or found[-1] is None:
        return []
    return [each for each in found if each is not None]


def _rows(graphs: Graphs) -> dict[int, tuple[int, ...]]:
    """Of each replica where its rows are in the one device's batch; nothing if that is not known.

    A row is known by all that it consists of: labels and flags by themselves are those of many rows.
    """
    whole = _examples(graphs.reference).get(0, {})
    shares = {at: each for traced in graphs.clients for at, each in _examples(traced).items()}
    names = [name for name in whole if len(whole[name]) == len(next(iter(whole.values())))]
    if not names or any(name not in each for each in shares.values() for name in names):
        return {}
    truth = list(zip(*(whole[name] for name in names), strict=True))
    found: dict[int, tuple[int, ...]] = {}
    for at, each in shares.items():
        if len({len(each[name]) for name in names}) > 1:
            return {}
        rows = list(zip(*(each[name] for name in names), strict=True))
        if any(row not in truth for row in rows):
            return {}
        found[at] = tuple(map(truth.index, rows))
    return found


def _examples(traced: Traced) -> dict[int, dict[str, tuple[int, ...]]]:
    """Of each replica, by their names, the rows of its examples; the one device is replica 0."""
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    for each in traced.arguments:
        if each.kind == "example":
            found.setdefault(each.replica or 0, {})[each.name] = each.rows
    return found


def _has_iterator(graphs: Graphs) -> bool:
    return any(each.kind == "iterator" for each in graphs.reference.arguments)


def _shards(graphs: Graphs, replicas: int) -> Iterator[tuple[int, ...]]:
    """How many rows each replica gets, from the smallest batch on."""
    # Even ones: what is right while shards are even is right under a condition, and not wrong.
    wanted = [(1,) * replicas, (2,) * replicas, (4,) * replicas]
    if _has_iterator(graphs):
        yield from wanted if len(graphs.clients) == 1 else ()
        return
    rows = _rows(graphs)
    if set(rows) == set(range(replicas)):
        yield from (each for each in wanted if all(len(rows[at]) >= count for at, count in enumerate(each)))


def _uneven(graphs: Graphs, replicas: int, *, anyhow: bool = False) -> Iterator[tuple[int, ...]]:
    """The same where replicas have other numbers of rows: only where the program's own data has such batches.

    With `anyhow` in any case.
    """
    given = [each.lengths for each in graphs.clients]
    differ = any(len(set(lengths) - {None}) > 1 for each in given for lengths in each)
    differ = differ or any(each != given[0] for each in given)
    rows = _rows(graphs)
    if not (differ or anyhow) or _has_iterator(graphs) or set(rows) != set(range(replicas)):
        return
    wanted = [(*(count,) * (replicas - 1), count // 2) for count in (2, 4)]
    yield from (each for each in wanted if all(len(rows[at]) >= count for at, count in enumerate(each)))


def _batches(
    graphs: Graphs, shards: Sequence[tuple[int, ...]], anew: Container[tuple[int, ...]] = ()
) -> tuple[list[tuple[Batch, ...]], tuple[Batch, ...]]:
    local = len(shards[0]) // len(graphs.clients)
    shares = [
        tuple(
            Batch(tuple(tuple(range(count)) for count in lengths[at * local : (at + 1) * local]), lengths in anew)
            for lengths in shards
        )
        for at in range(len(graphs.clients))
    ]
    if _has_iterator(graphs):
        # As many from the beginning of the batch, which the strategy shares out.
        return shares, tuple(Batch((tuple(range(sum(lengths))),), lengths in anew) for lengths in shards)
    rows = _rows(graphs)
    whole = tuple(
        Batch((tuple(row for at, count in enumerate(lengths) for row in rows[at][:count]),), lengths in anew)
        for lengths in shards
    )
    return shares, whole


def _differs(graphs: Graphs, runs: Sequence[Outcome], alone: Outcome) -> tuple[str, float, float] | None:
    """The value that differs most, what it should be and what it is."""
    judged = {name for traced in graphs.clients for name in traced.judged}
    kinds = {each.name: each for each in graphs.clients[0].arguments if each.kind == "variable"}
    if not judged:
        judged = {name for name, kind in kinds.items() if kind.trainable}
    worst: tuple[float, str, float, float] | None = None
    largest = max(
        (_change(alone, name) for name in alone.after if name in judged and name in alone.before), default=0.0
    )
    for name, (truth,) in ((name, copies) for name, copies in alone.after.items() if name in judged):
        kind = kinds.get(name)
        if kind is None or kind.synchronization == "on_read" or (kind.aggregation == "NONE" and kind.replica is None):
            continue
        expected = truth.numpy().astype("float64")
        # What is nothing but rounding on one device is so on the replicas, and another one.
        change = max(_change(alone, name), _BESIDE * largest)
        for run in runs:
            if any(copy != alone.before[name][0] for copy in run.before.get(name, ())):
                continue  # what begins otherwise says nothing of the step
            for copy in run.after.get(name, ()):
                found = _worst(copy.numpy().astype("float64"), expected, change)
                if found is not None and (worst is None or found[0] > worst[0]):
                    worst = (found[0], f"variable {name!r}[{found[1]}]", found[2], found[3])
    return None if worst is None else worst[1:]


def _change(alone: Outcome, name: str) -> float:
    """By how much a variable changes on one device, at most."""
    import numpy as np

    after, before = (each[name][0].numpy().astype("float64") for each in (alone.after, alone.before))
    return float(np.max(np.abs(after - before), initial=0.0))


def _worst(
    found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], change: float
) -> tuple[float, int, float, float] | None:
    import numpy as np

    if found.shape != expected.shape or not np.isfinite(expected).all() or not found.size:
        return None
    off = np.where(np.isfinite(found), np.abs(found - expected), np.inf)
    allowed = max(_SHARE * change, _PLAIN * float(np.max(np.abs(expected))), 1e-12)
    at = int(np.argmax(off))
    return (float(off[at]) / allowed, at, float(expected[at]), float(found[at])) if off[at] > allowed else None
