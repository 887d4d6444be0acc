"""The comparable values of a run: one global value per observable, name and step, whoever reported it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.evidence.lru_cache import LruCache
from harness.evidence.trace import Array, ClientTrace, Final, RunTrace, Step, Value, Variable

if TYPE_CHECKING:
    import numpy as np


_KEPT_BYTES = 1 << 26
OBSERVABLES = ("loss", "gradients", "variables", "metrics", "predictions")


@dataclass(frozen=True)
class Moment:
    """What every client recorded at one step, or at the end when `step` is None.

    `records` holds None for a client that recorded nothing there.
    """

    step: int | None
    tasks: tuple[str, ...]
    records: tuple[Step | Final | None, ...]


@dataclass(frozen=True)
class Observed:
    """One global value, in the TensorFlow dtype and by the task that reported it (None when all clients share in it).

    `problem` says why the parts could not be put together; then `array` is empty. `rows` are those of
    `harness.evidence.trace.Array`.
    """

    dtype: str
    array: np.ndarray[Any, Any]
    task: str | None = None
    problem: str | None = None
    rows: tuple[tuple[int, ...], ...] = ()


def is_integer(dtype: str) -> bool:
    """Whether values of this dtype are always compared exactly."""
    return dtype.startswith(("int", "uint", "bool"))


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Number repeated names in order of appearance: `v`, `v#2`, `v#3`."""
    seen: Counter[str] = Counter()
    unique: dict[str, None] = {}
    for name in names:
        seen[name] += 1
        numbered = name if seen[name] == 1 else f"{name}#{seen[name]}"
        while numbered in unique:  # somebody has called another one so
            seen[name] += 1
            numbered = f"{name}#{seen[name]}"
        unique[numbered] = None
    return tuple(unique)


def items(record: Step | Final | None, observable: str) -> dict[str, Value | Variable] | None:
    """What one client recorded of an observable, by unique name; None when it recorded nothing of it."""
    found = None if record is None else getattr(record, observable, None)
    if found is None:
        return None
    if observable == "loss":
        return {"loss": found}
    return dict(zip(unique_names([item.name for item in found]), found, strict=True))


def per_epoch(run: RunTrace, reference: RunTrace | None) -> bool:
    """Whether the run recorded only the ends of epochs while the reference recorded every step."""

    def only_epochs(trace: RunTrace) -> bool:
        return any(client.counters.per_epoch for client in trace.clients)

    return reference is not None and only_epochs(run) and not only_epochs(reference)


def epoch_ends(reference: RunTrace) -> list[int]:
    """The steps that end an epoch: those marked `epoch_end`, or where none is, the last of each epoch number."""
    steps = reference.clients[0].steps
    marked = [step.index for step in steps if step.epoch_end]
    return marked or sorted({step.epoch: step.index for step in steps if step.epoch is not None}.values())


def moments(run: RunTrace, aligned_to: RunTrace | None = None) -> tuple[Moment, ...]:
    """All steps of a run in order, then its end.

    Aligned to a reference, a run that recorded only the ends of epochs gets the reference's step numbers: its k-th
    record is the reference's k-th end of an epoch. Of a repeated step index the last record counts.
    """
    tasks = tuple(client.header.task for client in run.clients)
    ends: list[int] = []
    epochs = per_epoch(run, aligned_to)
    if epochs and aligned_to is not None:
        ends = epoch_ends(aligned_to)
    by_client: list[dict[int, Step]] = []
    for client in run.clients:
        numbered = enumerate(client.steps) if epochs else ((step.index, step) for step in client.steps)
        by_client.append({(_epoch_step(ends, k) if epochs else k): step for k, step in numbered})
    numbers = sorted(set().union(*by_client))
    found = [Moment(number, tasks, tuple(steps.get(number) for steps in by_client)) for number in numbers]
    if any(client.final is not None for client in run.clients):
        found.append(Moment(None, tasks, tuple(client.final for client in run.clients)))
    return tuple(found)


def _epoch_step(ends: Sequence[int], k: int) -> int:
    """The reference's step of the k-th epoch (from 0); epochs beyond its last get numbers beyond its last step."""
    return ends[k] if k < len(ends) else (ends[-1] if ends else 0) + k - len(ends) + 1


class History(Mapping["int | None", "dict[str, Observed]"]):
    """The global values of one observable at every moment at which any client recorded it.

    They are put together when they are asked for. What was asked for last is kept as far as it is small, so that a long
    training of a large model needs no more memory than a short one.
    """

    def __init__(self, run: RunTrace, observable: str, aligned_to: RunTrace | None) -> None:
        self._observable = observable
        self._moments = {
            moment.step: moment
            for moment in moments(run, aligned_to)
            if any(items(record, observable) is not None for record in moment.records)
        }
        self._like: Mapping[int | None, Mapping[str, Observed]] = {}
        if observable == "predictions" and aligned_to is not None:
            self._like = History(aligned_to, observable, None)
        self._latest = LruCache(_KEPT_BYTES, self._put_together, _size)

    def _put_together(self, step: int | None) -> dict[str, Observed]:
        return _global_values(self._moments[step], self._observable, self._like.get(step, {}))

    def __getitem__(self, step: int | None) -> dict[str, Observed]:
        """The values at a step of the reference, or at the end, by name."""
        return self._latest[step]

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._moments)

    def __len__(self) -> int:
        return len(self._moments)


def _size(values: Mapping[str, Observed]) -> int:
    return sum(value.array.nbytes for value in values.values())


def history(run: RunTrace, observable: str, aligned_to: RunTrace | None = None) -> History:
    """The global values of one observable, by moment and name."""
    return History(run, observable, aligned_to)


def begun_with(client: ClientTrace) -> dict[int, dict[str, np.ndarray[Any, Any]]]:
    """What variables held when steps began of which that is known by itself, as it is of the first; by unique name."""
    known = {} if client.start is None or not client.steps else {client.steps[0].index: client.start}
    known |= {start.step: start for start in client.starts if not start.lead}
    found = {}
    for step, start in known.items():
        names = unique_names([each.name for each in start.variables])
        held = zip(names, start.variables, strict=True)
        found[step] = {name: each.copies[0].numpy() for name, each in held}
    return found


def _global_values(moment: Moment, observable: str, like: Mapping[str, Observed]) -> dict[str, Observed]:
    """The values at a moment, put together to what is `like` them where parts may mean several things."""
    recorded = [items(record, observable) for record in moment.records]
    first = next(k for k, found in enumerate(recorded) if found is not None)
    values: dict[str, Observed] = {}
    for name, item in (recorded[first] or {}).items():
        if isinstance(item, Variable):
            values[name] = _whole((item.value,) if item.copies or item.aggregated else (), moment.tasks[first])
        elif not item.per_replica:
            values[name] = _whole(item.parts, moment.tasks[first])
        else:
            everywhere = [None if found is None else found.get(name) for found in recorded]
            absent = [task for task, value in zip(moment.tasks, everywhere, strict=True) if value is None]
            parts = tuple(part for value in everywhere if isinstance(value, Value) for part in value.parts)
            problem = f"per-replica parts are missing from {', '.join(absent)}" if absent else None
            joined = observable == "predictions"
            values[name] = _joined(parts, problem, like.get(name)) if joined else summed(parts, problem)
    return values


def _unusable(dtype: str, problem: str) -> Observed:
    import numpy as np

    return Observed(dtype, np.zeros(0), problem=problem)


def _whole(parts: Sequence[Array], task: str) -> Observed:
    if len(parts) != 1:
        return _unusable(
            parts[0].dtype if parts else "float32", f"{task} recorded {len(parts)} parts of a reduced value, not 1"
        )
    return Observed(parts[0].dtype, parts[0].numpy(), task, rows=parts[0].rows)


def summed(parts: Sequence[Array], problem: str | None = None) -> Observed:
    """Sum over replicas, in float64 (complex128) or as whole numbers, so that the sum itself adds no rounding."""
    import numpy as np

    problem = problem or _unlike(parts)
    if problem is not None or not parts:
        return _unusable(parts[0].dtype if parts else "float32", problem or "no replica recorded a part")
    dtype = parts[0].dtype
    if is_integer(dtype):
        total = _exact_sum([part.numpy() for part in parts])
        if total is None:
            return _unusable(dtype, f"the sum of the replicas' parts, which are {dtype}, does not fit into 64 bits")
    else:
        wide = np.complex128 if dtype.startswith("complex") else np.float64
        with np.errstate(invalid="ignore"):  # Inf - Inf is NaN, which the laws report
            total = np.asarray(np.sum([part.numpy().astype(wide) for part in parts], axis=0, dtype=wide))
    return Observed(dtype, total, rows=parts[0].rows)


def _unlike(parts: Sequence[Array]) -> str | None:
    """Why these parts of one value cannot be added; NumPy might broadcast or truncate them."""
    for what, kinds in (
        ("shapes", {str(part.shape) for part in parts}),
        ("rows", {show_rows(part.rows) for part in parts}),
        ("dtypes", {part.dtype for part in parts}),
    ):
        if len(kinds) > 1:
            return f"the replicas' parts have different {what}: {', '.join(sorted(kinds))}"
    return None


def show_rows(rows: tuple[tuple[int, ...], ...], most: int = 8) -> str:
    """`[2, 1]`: the lengths of a ragged value's rows, of each dimension; of many the first ones."""
    shown = [f"[{', '.join(map(str, each[:most]))}{', ...' if len(each) > most else ''}]" for each in rows]
    return " ".join(shown) or "none"


def _joined(parts: Sequence[Array], problem: str | None, like: Observed | None) -> Observed:
    """Predictions in input order: the one array all replicas agree on, or the replicas' rows one after another.

    Replicas may have equal rows, such as a class; then there are as many as of what is `like` them.
    """
    import numpy as np

    if problem is not None or not parts:
        return _unusable(parts[0].dtype if parts else "float32", problem or "no replica recorded a part")
    is_whole = like is None or like.array.shape[:1] != (len(parts) * (parts[0].shape or (0,))[0],)
    if is_whole and all(part == parts[0] for part in parts):
        return Observed(parts[0].dtype, parts[0].numpy(), rows=parts[0].rows)
    kinds = {(part.dtype, part.shape[1:], len(part.rows)) for part in parts}
    if len(kinds) > 1 or any(not part.shape for part in parts):
        return _unusable(parts[0].dtype, "the replicas' predictions cannot be put one after another: shapes differ")
    # Of ragged ones the lengths of the rows follow each other, in each dimension, as the rows do.
    rows = tuple(
        tuple(itertools.chain.from_iterable(lengths)) for lengths in zip(*(part.rows for part in parts), strict=True)
    )
    return Observed(parts[0].dtype, np.concatenate([part.numpy() for part in parts]), rows=rows)


# Sums of whole numbers that are exact or refused, where NumPy would wrap around.


_INT64_MAX = 2**63 - 1


def _exact_sum(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    """The sum of arrays of integers or booleans of one shape, as int64 or else uint64; None if it fits into neither."""
    import numpy as np

    largest = sum(max(abs(int(array.min())), abs(int(array.max()))) if array.size else 0 for array in arrays)
    if largest <= _INT64_MAX:
        return np.asarray(np.sum([array.astype(np.int64) for array in arrays], axis=0, dtype=np.int64))
    total = np.sum([array.astype(object) for array in arrays], axis=0, dtype=object)  # of Python's own integers
    low, high = int(np.min(total)), int(np.max(total))
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.asarray(total, dtype)
    return None
