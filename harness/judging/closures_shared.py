"""Of a coordinator's workers: whether they have shared the data, by what each of them has read.

Each worker may read all data by itself, or a shard of its own. What is neither is found where it is certain: several
workers read one and the same shard, examples are read by nobody though every worker has gone through what it reads, or
workers share some examples and not others. What a single worker reads in as many steps says what there is to be read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from harness.evidence.trace import RunTrace
from harness.evidence.witness_values import rows_of
from harness.judging.laws.protocol import Finding
from harness.judging.wording import joined

_LAW = "examples_match_reference"
_CURE = (
    "The chief makes the data sets of all workers, and what it reads of TF_CONFIG or of an InputContext is the same "
    "for each: shard by tf.distribute.coordinator.experimental_get_current_worker_index(), or not at all"
)
_PASSES = 2
"""A worker that has gone so often through the same examples has come to the end of its data."""

_Batches = list[list[int]]


def badly_shared(run: RunTrace, alone: RunTrace) -> Iterator[Finding]:
    """How the workers have shared the data wrongly; nothing where that is not certain.

    Args:
        run: of the script, in which no task was started again.
        alone: what it has left as on one device, told of a single worker.
    """
    read = _by_worker(run)
    whole = _batches(alone)
    known = set(_rows(whole))
    if len(read) < 2 or not known or not all(known.issuperset(_rows(batches)) for batches in read.values()):
        return
    shards = {worker: _shard(batches, whole, len(read)) for worker, batches in read.items()}
    if None not in shards.values():
        yield from _one_shard_for_several(shards, read)
    elif all(_is_gone_through(_rows(batches)) for batches in read.values()):
        # What a single worker has read until then is there to be read, even if that is not all of it.
        yield from _incomplete(read, known, max(map(len, itertools.chain(whole, *read.values()))))


def _one_shard_for_several(shards: dict[int, int | None], read: dict[int, _Batches]) -> Iterator[Finding]:
    """Workers that read what `Dataset.shard` gives of one index."""
    for index, count in Counter(shards.values()).items():
        if count > 1:
            which = [worker for worker, each in shards.items() if each == index]
            missing = sorted(set(range(len(shards))) - {each for each in shards.values() if each is not None})
            others = f"{'shard' if len(missing) == 1 else 'shards'} {joined([*map(str, missing)])}"
            yield _finding(
                f"workers {joined([*map(str, which)])} read the same examples in the same order, shard {index} of "
                f"{len(shards)} of what a single worker reads, and nobody reads {others}: Dataset.shard gets the same "
                f"index in each worker. {_CURE}",
                float(count * len(_rows(read[which[0]]))),
                float(len(_rows(read[which[0]]))),
            )


def _incomplete(read: dict[int, _Batches], known: set[int], batch: int) -> Iterator[Finding]:
    """Examples of no worker, and of some and not of others, where everybody has gone through its own.

    Each worker may leave out an incomplete batch, or fill it with examples of others.
    """
    own = {worker: set(_rows(batches)) for worker, batches in read.items()}
    missing = known.difference(*own.values())
    if len(missing) > len(read) * (batch - 1):
        yield _finding(
            f"{len(missing)} of the {len(known)} examples that a single worker reads are read by no worker, though "
            f"each has gone through its data at least twice: a shard is missing. {_CURE}",
            float(len(known) - len(missing)),
            float(len(known)),
        )
        return
    for (one, mine), (other, theirs) in itertools.combinations(own.items(), 2):
        both = mine & theirs
        if min(len(both), len(mine ^ theirs)) > len(read) * batch:
            yield _finding(
                f"{len(both)} examples are read by worker {one} and by worker {other}, and {len(mine ^ theirs)} only "
                "by one of them, though both have gone through their data at least twice: their shards overlap, so "
                f"that some examples count more often than others. {_CURE}",
                float(len(both)),
                0.0,
            )
            return


def _finding(text: str, observed: float, expected: float) -> Finding:
    return Finding(_LAW, text, observable="examples", observed=observed, expected=expected, bound=0.0)


def _shard(batches: _Batches, whole: _Batches, count: int) -> int | None:
    """The index of the shard of `count` that a worker reads of what a single one reads; None if it reads none.

    Shards are taken of examples or of batches. What is read in an order of its own is no shard that is known.
    """
    rows, all_rows = _rows(batches), _rows(whole)
    if rows == all_rows[: len(rows)]:
        return None  # all of it; of data that repeats soon a shard can look like that, too
    mine, first = _first_pass(rows), _first_pass(all_rows)
    for index in range(count):
        # Of examples or batches, whose data repeats before it is sharded, or after that.
        if (
            _begins(all_rows[index::count], rows)
            or _begins(whole[index::count], batches)
            or (len(mine) < len(rows) and len(first) < len(all_rows) and first[index::count] == mine)
        ):
            return index
    return None


def _begins(longer: Sequence[object], shorter: Sequence[object]) -> bool:
    return len(longer) >= len(shorter) and longer[: len(shorter)] == shorter


def _first_pass(rows: Sequence[int]) -> list[int]:
    """What comes before something comes again."""
    known: dict[int, None] = {}
    for row in rows:
        if row in known:
            break
        known[row] = None
    return list(known)


def _is_gone_through(rows: Sequence[int]) -> bool:
    """Whether these are passes over one and the same data, in whatever order, the last of which may be incomplete.

    Examples that look alike may be several.
    """
    sums = list(itertools.accumulate(rows, initial=0))
    for size in range(1, len(rows) // _PASSES + 1):
        if sums[2 * size] != 2 * sums[size]:  # the quick way to see that the first two passes differ
            continue
        first = Counter(rows[:size])
        passes = (Counter(rows[start : start + size]) for start in range(size, len(rows), size))
        if all(each == first or (each < first and each.total() == len(rows) % size) for each in passes):
            return True
    return False


def _by_worker(run: RunTrace) -> dict[int, _Batches]:
    """The examples of each closure of each worker; nothing if it is not known of one who has run it."""
    found: dict[int, _Batches] = {}
    for seen in run.clients[0].seen:
        if seen.worker is None or seen.examples is None:
            return {}
        found.setdefault(seen.worker, []).append(rows_of(seen))
    return dict(sorted(found.items()))


def _batches(trace: RunTrace) -> _Batches:
    return [rows_of(seen) for seen in trace.clients[0].seen]


def _rows(batches: _Batches) -> list[int]:
    return list(itertools.chain.from_iterable(batches))
