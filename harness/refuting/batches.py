"""Which batches of a few rows a step is carried out on, by how many each replica gets of the first batch."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from harness.evidence.step_graph import StepGraph
from harness.recording.tracing import TrialBatch
from harness.running.step_graphs import StepGraphs


def rows_of(graphs: StepGraphs) -> dict[int, tuple[int, ...]]:
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


def _examples(traced: StepGraph) -> dict[int, dict[str, tuple[int, ...]]]:
    """Of each replica, by their names, the rows of its examples; the one device is replica 0."""
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    for each in traced.arguments:
        if each.kind == "example":
            found.setdefault(each.replica or 0, {})[each.name] = each.rows
    return found


def has_iterator(graphs: StepGraphs) -> bool:
    """Whether the step takes its examples out of an iterator by itself."""
    return any(each.kind == "iterator" for each in graphs.reference.arguments)


def even_shards(graphs: StepGraphs, replicas: int) -> Iterator[tuple[int, ...]]:
    """How many rows each replica gets, from the smallest batch on."""
    # Even ones: what is right while shards are even is right under a condition, and not wrong.
    wanted = [(1,) * replicas, (2,) * replicas, (4,) * replicas]
    if has_iterator(graphs):
        yield from wanted if len(graphs.clients) == 1 else ()
        return
    rows = rows_of(graphs)
    if set(rows) == set(range(replicas)):
        yield from (each for each in wanted if all(len(rows[at]) >= count for at, count in enumerate(each)))


def uneven_shards(graphs: StepGraphs, replicas: int, *, anyhow: bool = False) -> Iterator[tuple[int, ...]]:
    """The same where replicas have other numbers of rows: only where the program's own data has such batches.

    With `anyhow` in any case.
    """
    given = [each.lengths for each in graphs.clients]
    differ = any(len(set(lengths) - {None}) > 1 for each in given for lengths in each)
    differ = differ or any(each != given[0] for each in given)
    rows = rows_of(graphs)
    if not (differ or anyhow) or has_iterator(graphs) or set(rows) != set(range(replicas)):
        return
    wanted = [(*(count,) * (replicas - 1), count // 2) for count in (2, 4)]
    yield from (each for each in wanted if all(len(rows[at]) >= count for at, count in enumerate(each)))


def batches_of(
    graphs: StepGraphs, shards: Sequence[tuple[int, ...]], anew: Container[tuple[int, ...]] = (), *, zeros: bool = False
) -> tuple[list[tuple[TrialBatch, ...]], tuple[TrialBatch, ...]]:
    """What each client gets of batches that leave each replica so many rows, and what one device gets of them."""
    local = len(shards[0]) // len(graphs.clients)
    rows = {} if has_iterator(graphs) else rows_of(graphs)

    def batch(lengths: tuple[int, ...], *rows: tuple[int, ...]) -> TrialBatch:
        return TrialBatch(rows, lengths in anew, zeros)

    def whole(lengths: tuple[int, ...]) -> tuple[int, ...]:
        if has_iterator(graphs):  # as many from the beginning of the batch, which the strategy shares out
            return tuple(range(sum(lengths)))
        return tuple(row for at, count in enumerate(lengths) for row in rows[at][:count])

    shares = [
        tuple(batch(each, *(tuple(range(count)) for count in each[at * local : (at + 1) * local])) for each in shards)
        for at in range(len(graphs.clients))
    ]
    return shares, tuple(batch(each, whole(each)) for each in shards)
