"""What a cause is: a model of one mistake in an input pipeline, which predicts from the reference who reads what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from harness.evidence.pipelines import Pipeline
from harness.ledger import Aligned

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]
else:
    Ints = Any


BATCHES = ("Batch", "ParallelBatch", "PaddedBatch")
"""What TensorFlow calls data sets that make batches, of a `Cause.kinds`."""

CUTS = ("Shard", "Skip")
"""What it calls those by which a program takes its shards, the surest first: what is skipped may be a header."""

EXAMPLES_MIN = 8
"""Who has fewer may have them by chance."""
_SHOWN_MAX = 6


@dataclass(frozen=True)
class NamedCause:
    """A cause that reproduces the ledger: its evidence in numbers and its cure."""

    cause: str
    text: str


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a cause reasons about.

    Attributes:
        workers: the tasks that read.
        local: replicas of each worker.
        truth: the reference's ids in the order read, one array for each epoch.
        batches: the reference's global batches, one list for each epoch.
        read: what each worker read, in its order, one array for each epoch.
        read_by_replica: what each replica read; None unless each replica's ids are known.
        sizes: how many examples each worker's replicas read at its first step with any.
        pipelines: what the run's first client has iterated.
    """

    workers: tuple[str, ...]
    local: int
    truth: tuple[Ints, ...]
    batches: tuple[tuple[Ints, ...], ...]
    read: tuple[tuple[Ints, ...], ...]
    read_by_replica: tuple[tuple[Ints, ...], ...] | None
    sizes: tuple[tuple[int, ...], ...]
    pipelines: tuple[Pipeline, ...] = ()

    @property
    def replicas(self) -> int:
        """Replicas of all workers."""
        return len(self.workers) * self.local

    @property
    def batch(self) -> int:
        """The reference's global batch size, that of its largest batch."""
        return max((len(batch) for batches in self.batches for batch in batches), default=0)

    @property
    def readers(self) -> tuple[tuple[Literal["worker", "replica"], int], ...]:
        """Who may have a pipeline of its own, and how many there are: workers and, in some programs, replicas."""
        found: list[tuple[Literal["worker", "replica"], int]] = []
        if len(self.workers) > 1:
            found.append(("worker", len(self.workers)))
        if self.local > 1 and self.read_by_replica is not None:
            found.append(("replica", self.replicas))
        return tuple(found)

    def whole(self, by: Literal["worker", "replica"] = "worker") -> tuple[Ints, ...]:
        """What each reader read in all epochs."""
        import numpy as np

        return tuple(np.concatenate(parts) for parts in self.by(by))

    def by(self, by: Literal["worker", "replica"]) -> tuple[tuple[Ints, ...], ...]:
        """What each reader read, one array for each epoch."""
        return self.read if by == "worker" else self.read_by_replica or ()

    def in_passes(self) -> Inputs | None:
        """The same where a pass over a data set that repeats itself counts as an epoch; None if not all make as many.

        Readers of such data sets come to the end of a pass within a batch, and not all at one step.
        """
        import numpy as np

        whole = np.concatenate(self.truth)
        count = len(whole) // max(1, len(np.unique(whole)))
        if count < 2:
            return None
        truth, *read = (_cut(ids, count) for ids in (whole, *self.whole()))
        by_replica = [_cut(ids, count) for ids in self.whole("replica")] if self.read_by_replica else [None]
        parts = tuple(part for part in read if part is not None)
        if truth is None or len(parts) < len(read):
            return None
        known = tuple(part for part in by_replica if part is not None)
        return replace(self, truth=truth, read=parts, read_by_replica=known if len(known) == len(by_replica) else None)

    @classmethod
    def of(cls, both: Aligned, pipelines: tuple[Pipeline, ...] = ()) -> Inputs | None:
        """Take two ledgers apart; None where they say too little: a silent client, or workers of unequal shape."""
        import numpy as np

        run, reference = both.run, both.reference
        if run.silent or not len(run) or not len(reference) or len(set(run.replicas)) != 1:
            return None
        epochs = reference.epochs()
        parts = [reference.where(epoch=epoch) for epoch in epochs]
        # Epochs of the run mean something to the models only if they are the reference's.
        own = [run.where(epoch=epoch) for epoch in epochs] if run.epochs() == epochs else [run]
        read = tuple(tuple(part.id[part.worker == k] for part in own) for k in range(len(run.workers)))
        by_replica = tuple(tuple(part.id[part.replica == k] for part in own) for k in range(sum(run.replicas)))
        sizes = run.sizes()
        return cls(
            workers=run.workers,
            local=run.replicas[0],
            truth=tuple(np.asarray(part.order(), np.int64) for part in parts),
            batches=tuple(_by_step(part.step, part.id) for part in parts),
            read=read,
            read_by_replica=by_replica if all(sum(map(len, one)) for one in by_replica) else None,
            sizes=tuple(
                next((found[task] for found in sizes.values() if sum(found.get(task, ()))), ()) for task in run.workers
            ),
            pipelines=pipelines,
        )


def _cut(ids: Ints, count: int) -> tuple[Ints, ...] | None:
    """So many passes over the same examples, each with all of them; None if it is anything else."""
    import numpy as np

    size, rest = divmod(len(ids), count)
    parts = tuple(ids[k * size : (k + 1) * size] for k in range(count))
    if rest or any(len(np.unique(part)) < size or not _same(part, parts[0]) for part in parts):
        return None
    return parts


def _by_step(step: Ints, ids: Ints) -> tuple[Ints, ...]:
    import numpy as np

    if not len(ids):
        return ()
    order = np.argsort(step, kind="stable")
    cuts = np.flatnonzero(np.diff(step[order])) + 1
    return tuple(np.split(ids[order], cuts))


class Prediction(Protocol):
    """What should have been read if the cause is the right one."""

    @property
    def text(self) -> str:
        """The evidence in numbers, and the cure in TensorFlow's terms."""

    def reproduces(self, inputs: Inputs) -> bool:
        """Whether it was."""


class Cause(Protocol):
    """One mistake; each lives in its own file, as `CAUSE`."""

    @property
    def id(self) -> str:
        """The name in reports; also the name of the file."""

    @property
    def priority(self) -> int:
        """When several fit, the lowest is named first."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The transformations of `tf.data` that make it, as `harness.evidence.pipelines` calls them."""

    @property
    def what(self) -> str:
        """The mistake in words, as a sentence without its stop."""

    def predictions(self, inputs: Inputs) -> Iterable[Prediction]:
        """What the mistake would lead to, in each of its forms; nothing where it could not be seen."""


@dataclass(frozen=True, eq=False)
class Streams:
    """For each reader the ids in the order of its pipeline, one array for each epoch or one for all.

    Reproduced if each reader read its stream from the start, as far as it came, or all of it in another order.
    """

    text: str
    streams: Sequence[Sequence[Ints]]
    by: Literal["worker", "replica"] = "worker"
    sized: bool = True

    def reproduces(self, inputs: Inputs) -> bool:
        """Compare epoch by epoch where both have the same epochs, else as a whole."""
        import numpy as np

        read = inputs.by(self.by)
        if not self.sized or len(read) != len(self.streams):
            return False
        if all(len(ours) == len(stream) for ours, stream in zip(read, self.streams, strict=True)):
            pairs = [pair for both in zip(read, self.streams, strict=True) for pair in zip(*both, strict=True)]
            if all(_follows(*pair) for pair in pairs):
                return True
        return all(
            _follows(np.concatenate(ours), np.concatenate(stream))
            for ours, stream in zip(read, self.streams, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Total:
    """All ids read over the whole run, by whomever."""

    text: str
    ids: Sequence[Ints]

    def reproduces(self, inputs: Inputs) -> bool:
        """Compare as multisets."""
        import numpy as np

        return _same(np.concatenate(inputs.whole()), np.concatenate(self.ids))


@dataclass(frozen=True, eq=False)
class Checked:
    """A prediction that is no list of ids, such as how many ids random shards share; checked where it is made."""

    text: str
    holds: bool

    def reproduces(self, inputs: Inputs) -> bool:
        """What was found when it was made."""
        return self.holds


def shown(ids: Ints) -> str:
    """`0, 2, 4, 6, 8, 10, ...`."""
    return ", ".join(map(str, ids[:_SHOWN_MAX].tolist())) + (", ..." if len(ids) > _SHOWN_MAX else "")


def passes(inputs: Inputs, by: Literal["worker", "replica"]) -> Iterable[tuple[Ints, list[Ints]]]:
    """All examples and each reader's, for each epoch; for the first pass only where epochs are no passes."""
    import numpy as np

    read = inputs.by(by)
    if all(len(np.unique(truth)) == len(truth) for truth in inputs.truth):
        return [(truth, [parts[k] for parts in read]) for k, truth in enumerate(inputs.truth)]
    total = np.concatenate(inputs.truth)
    once = total[: len(np.unique(total))]
    shard, rest = divmod(len(once), len(read))
    passes = [ids[: len(once)] for ids in inputs.whole(by)]
    if rest or any(len(np.unique(ids)) == len(ids) > shard for ids in passes):
        return []  # who has more than a shard, and none of it again, reads everything
    return [(once, [ids[:shard] for ids in passes])]


def is_cut_first(pipelines: Iterable[Pipeline], by: Sequence[str] = CUTS) -> bool:
    """Whether the program takes its shards by itself, `by` one of these, and has shuffled only what it had cut."""
    shuffled = []
    for pipeline in pipelines:
        kinds = [made.kind for made in reversed(pipeline.made)]
        if "Shuffle" in kinds:
            cut = next((kind for kind in CUTS if kind in kinds), None)
            by_hand = cut in by and (pipeline.distributed == "function" or cut == "Shard")
            after = kinds[kinds.index("Shuffle") :]
            batch = next((place for place, kind in enumerate(after) if kind in BATCHES), None)
            # As many as a shard has may be taken of what is shuffled; behind the batch it is a number of steps.
            again = cut in after or (cut == "Skip" and "Take" in after[:batch])
            shuffled.append(by_hand and not again)
    return bool(shuffled) and all(shuffled)


def ranges(truth: Ints, shards: Iterable[Ints]) -> list[tuple[int, int]] | None:
    """Where each shard begins and ends in the data set, in whatever order it is read; None unless each is a range."""
    import numpy as np

    for whole in (truth, np.sort(truth)):
        place = {key: at for at, key in enumerate(whole.tolist())}
        found = []
        for shard in shards:
            places = sorted({place.get(key, -1) for key in shard.tolist()})
            if not places or places[0] < 0 or not len(shard) == len(places) == places[-1] - places[0] + 1 < len(whole):
                break
            found.append((places[0], places[-1] + 1))
        else:
            return found
    return None


def pieces(ids: Ints, batch: int, replicas: int, worker: int, workers: int) -> Ints:
    """Of every batch, cut into a piece for each replica, those that AutoShardPolicy.DATA gives to one worker.

    TensorFlow cuts with `_LegacyRebatchDataset` (4 examples for 3 replicas are 2, 2 and 0) and deals the pieces out
    with `Dataset.shard` (tensorflow/core/grappler/optimizers/data/auto_shard.cc).
    """
    import numpy as np

    found = [ids[:0]]
    for start in range(0, len(ids), batch):
        whole = ids[start : start + batch]
        size = -(-len(whole) // replicas)
        found += [whole[k * size : (k + 1) * size] for k in range(worker, replicas, workers)]
    return np.concatenate(found)


def _same(ours: Ints, other: Ints) -> bool:
    import numpy as np

    return len(ours) == len(other) and np.array_equal(np.sort(ours), np.sort(other))


def _follows(read: Ints, stream: Ints) -> bool:
    import numpy as np

    if not len(read):
        return not len(stream)
    return np.array_equal(read, stream[: len(read)]) or _same(read, stream)
