"""A ledger as text: workers across, steps down, bounded both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.ledger._consumed import Consumed
from harness.ledger._multiset import Ints, differing

_IDS_MAX = 4
_CELL_MAX = 28
_Marks = tuple[dict[int, list[str]], dict[int, list[str]]]


def table(ledger: Consumed, expected: Consumed | None, *, width: int, rows: int) -> str:
    """See `Ledger.table`."""
    steps = sorted({*ledger.reached, *(() if expected is None else expected.reached)})
    marks = _repeated(ledger) if expected is None else _differing(ledger, expected)
    shown = _chosen(steps, marks, max(2, rows))
    cells = _cells(ledger, shown)
    lines = [["step", *ledger.workers, "all", "too often", *(["missing"] if expected is not None else [])]]
    for step in shown:
        own = [cells.get((step, worker), "-") for worker in range(len(ledger.workers))]
        total = str(int(ledger.batches.size[ledger.batches.step == step].sum()))
        marked = [_ids(mark.get(step, [])) for mark in (marks if expected is not None else marks[:1])]
        lines.append([str(step), *own, total, *marked])
    text = _laid_out(lines, len(ledger.workers), width)
    hidden = len(steps) - len(shown)
    if hidden:
        wrong = len({step for mark in marks for step in mark} - set(shown))
        text.append(f"... {hidden} more of {len(steps)} steps{f', {wrong} of them wrong' if wrong else ''}")
    return "\n".join([*text, *_whole(ledger, expected, width)])


def _chosen(steps: Sequence[int], marks: _Marks, rows: int) -> list[int]:
    """The first wrong steps, filled up with the first and the last of all."""
    wrong = sorted({step for mark in marks for step in mark})[: rows - 2]
    rest = [step for step in (*steps[-1:], *steps) if step not in wrong]
    return sorted({*wrong, *list(dict.fromkeys(rest))[: rows - len(wrong)]})


def _cells(ledger: Consumed, steps: Iterable[int]) -> dict[tuple[int, int], str]:
    """`4+4: 0..7` for each step shown and each worker: sizes of the replicas' batches, first and last id."""
    import numpy as np

    ends = np.cumsum(ledger.batches.size)
    found = {}
    for step in steps:
        at = np.flatnonzero(ledger.batches.step == step)
        for worker in set(ledger.batches.worker[at].tolist()):
            own = at[ledger.batches.worker[at] == worker]
            ids = np.concatenate([ledger.id[ends[k] - ledger.batches.size[k] : ends[k]] for k in own])
            sizes = "+".join(map(str, ledger.batches.size[own].tolist()))
            span = f": {ids[0]}..{ids[-1]}" if len(ids) > 1 else f": {ids[0]}" if len(ids) else ""
            found[step, worker] = _cut(sizes + span, _CELL_MAX)
    return found


def _differing(ledger: Consumed, expected: Consumed) -> _Marks:
    """By step, the ids consumed too often and too rarely."""
    return _marks(*differing((ledger.step, ledger.id), (expected.step, expected.id)))


def _repeated(ledger: Consumed) -> _Marks:
    """By step, the ids that occurred before in the same epoch."""
    import numpy as np

    if not len(ledger):
        return {}, {}
    order = np.lexsort((ledger.step, ledger.id, ledger.epoch))
    epoch, key, step = ledger.epoch[order], ledger.id[order], ledger.step[order]
    again = np.flatnonzero((epoch[1:] == epoch[:-1]) & (key[1:] == key[:-1])) + 1
    pairs, counts = np.unique(np.stack([step[again], key[again]]), axis=1, return_counts=True)
    return _marks(pairs[0], pairs[1], counts, np.zeros_like(counts))


def _marks(step: Ints, key: Ints, seen: Ints, truth: Ints) -> _Marks:
    more: dict[int, list[str]] = {}
    less: dict[int, list[str]] = {}
    for at, one, count in zip(step.tolist(), key.tolist(), (seen - truth).tolist(), strict=True):
        (more if count > 0 else less).setdefault(at, []).append(str(one) if abs(count) == 1 else f"{one} x{abs(count)}")
    return more, less


def _ids(ids: Sequence[str]) -> str:
    more = f", ... {len(ids)} in all" if len(ids) > _IDS_MAX else ""
    return ", ".join(ids[:_IDS_MAX]) + more


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _laid_out(lines: Sequence[Sequence[str]], workers: int, width: int) -> list[str]:
    """Columns of equal width; workers that do not fit in are left out, and the heading says how many."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    fixed = sum(size + 2 for k, size in enumerate(widths) if not 1 <= k <= workers)
    kept = 0
    while kept < workers and sum(size + 2 for size in widths[1 : kept + 2]) + fixed <= width - 12 * (
        kept + 1 < workers
    ):
        kept += 1
    kept = max(1, kept) if workers else 0
    left_out = workers - kept
    found = []
    for number, line in enumerate(lines):
        note = [f"+{left_out} more" if number == 0 else ".."] if left_out else []
        cells = [*line[: kept + 1], *note, *line[workers + 1 :]]
        sizes = [*widths[: kept + 1], *([9] if note else []), *widths[workers + 1 :]]
        found.append(_cut("  ".join(cell.ljust(size) for cell, size in zip(cells, sizes, strict=True)).rstrip(), width))
    return found


def _whole(ledger: Consumed, expected: Consumed | None, width: int) -> list[str]:
    """The last line: what each worker consumed over the whole run, and how that compares."""
    import numpy as np

    sums = np.bincount(ledger.worker, minlength=len(ledger.workers)).tolist()
    parts = ", ".join(f"{task} {count}" for task, count in zip(ledger.workers, sums, strict=True))
    text = f"over all: {len(ledger)} examples, {len(ledger.counts())} different; {_cut(parts, width // 2)}"
    if expected is not None:
        too_often, missing = ledger.surplus(expected), ledger.missing(expected)
        text += f"; {too_often.total()} too many, {missing.total()} missing of {len(expected)}"
    return [_cut(text, width)]
