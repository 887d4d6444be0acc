"""What TensorFlow documents of each sharding policy, as formulas: which ids each replica is given at each step.

`tutorial` is https://www.tensorflow.org/tutorials/distribute/input, `AutoShardPolicy` the docstring in
tensorflow/python/data/ops/options.py. What the tutorial leaves open ("It is not advisable to depend on the actual
values that might end up on each replica") is taken from the source that is named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest

from harness import StrategyCase
from harness.evidence.trace import RunTrace
from scenarios.programs.sharding.pipelines import Pipeline

Ids = tuple[int, ...]
# By task, for each step the ids of each local replica.
Seen = dict[str, tuple[tuple[Ids, ...], ...]]
Epochs = Sequence[Sequence[Ids]]
_READERS = ("tfrecord", "text")


def seen(run: RunTrace) -> Seen:
    """What each replica was given at each step."""
    return {client.header.task: tuple(tuple(step.examples or ()) for step in client.steps) for client in run.clients}


def epochs_of(run: RunTrace, epochs: int) -> Epochs:
    """For each epoch the batches that one device was given; none in an epoch without examples."""
    (client,) = run.clients
    return [
        [ids for step in client.steps if step.epoch == epoch for ids in step.examples or ()] for epoch in range(epochs)
    ]


def policy_in_force(pipeline: Pipeline) -> str:
    """AUTO is FILE where a file-based dataset is detected, else DATA (tutorial, Sharding).

    What is detected are the readers of `kReaderDatasetOps` in tensorflow/core/grappler/optimizers/data/auto_shard.cc,
    to which CSV does not belong.
    """
    if pipeline.policy != "AUTO":
        return pipeline.policy
    return "FILE" if pipeline.source in _READERS else "DATA"


def batches(ids: Sequence[int], size: int, drop_remainder: bool = False) -> list[Ids]:
    """`Dataset.batch`."""
    found = [tuple(ids[start : start + size]) for start in range(0, len(ids), size)]
    return [batch for batch in found if len(batch) == size or not drop_remainder]


def documented_split(batch: Ids, replicas: int) -> tuple[Ids, ...]:
    """One global batch over all replicas: the batch divided by the replicas, rounded up, for as long as it lasts.

    Source: tutorial, Batching: 4 examples are [0, 1], [2, 3], [] over 3 replicas, and one each and [] over 5.
    """
    each = -(-len(batch) // replicas)
    return tuple(batch[each * index : each * (index + 1)] for index in range(replicas))


def shares(size: int, workers: int, replicas: int, worker: int) -> list[int]:
    """How many examples each sub-batch of a worker has, in turn; over all workers a step has `size` of them.

    Source: `batch_sizes_for_worker` in tensorflow/python/data/experimental/ops/distribute.py, constraints (A) to (D).
    """
    each, more = divmod(size, workers * replicas)
    first = [each + (index < more) for index in range(workers * replicas)]
    offset = worker * replicas
    return first[offset:] + first[:offset]


def rebatched(stream: Sequence[int], sizes: Sequence[int]) -> list[Ids]:
    """`Dataset.rebatch`: `unbatch()` and then batches of these sizes in turn, whatever the batches were before.

    A size of 0 asks for an empty batch, also where no example is left.
    """
    found: list[Ids] = []
    start, turn = 0, 0
    while (size := sizes[turn % len(sizes)]) == 0 or start < len(stream):
        found.append(tuple(stream[start : start + size]))
        start, turn = start + size, turn + 1
    return found


def interleaved(files: Sequence[Sequence[int]], cycle_length: int = 2) -> list[int]:
    """`Dataset.interleave` with blocks of one: files in turn, where one that has ended leaves its place to the next."""
    waiting = deque(map(deque, files))
    places: list[deque[int] | None] = [None] * cycle_length
    found, at = [], 0
    while waiting or any(place is not None for place in places):
        if places[at] is None and waiting:
            places[at] = waiting.popleft()
        if place := places[at]:
            found.append(place.popleft())
        else:
            places[at] = None
        at = (at + 1) % cycle_length
    return found


def _only(stream: Sequence[int], files: Sequence[Sequence[int]]) -> list[int]:
    wanted = set(chain.from_iterable(files))
    return [key for key in stream if key in wanted]


def contract(pipeline: Pipeline, case: StrategyCase, epochs: Epochs) -> Seen:
    """What every replica sees of a pipeline that ends in batching.

    Args:
        pipeline: its policy and source choose the formula.
        case: its workers and devices.
        epochs: for each epoch the global batches that the pipeline yields undistributed.
    """
    workers = [f"worker:{index}" for index in range(case.workers)] if case.kind == "multi_worker" else ["local:0"]
    given: dict[str, list[tuple[Ids, ...]]] = {task: [] for task in workers}
    for epoch in epochs:
        columns = [list(_worker(pipeline, case, epoch, index)) for index in range(len(workers))]
        # A worker that has come to its end goes on with empty batches until all have: tensorflow/python/distribute/
        # input_lib.py, _get_value_or_dummy.
        for row in zip_longest(*columns, fillvalue=((),) * case.devices):
            for task, parts in zip(workers, row, strict=True):
                given[task].append(parts)
    return {task: tuple(steps) for task, steps in given.items()}


def _worker(pipeline: Pipeline, case: StrategyCase, epoch: Sequence[Ids], worker: int) -> Iterator[tuple[Ids, ...]]:
    """The steps of one worker in one epoch, one tuple of ids for each of its replicas."""
    policy = policy_in_force(pipeline)
    count, devices = case.workers, case.devices
    if count * devices == 1:
        yield from ((batch,) for batch in epoch)  # nothing to divide: input_lib.py, DistributedDataset
        return
    if policy == "DATA":
        # "Shards by elements produced by the dataset" (AutoShardPolicy), which at that point are the sub-batches: of
        # each global batch a worker processes every count-th one (tutorial, Sharding, DATA).
        for batch in epoch:
            parts = documented_split(batch, count * devices)
            yield parts[worker::count]
        return
    stream = list(chain.from_iterable(epoch))
    if policy == "FILE":
        # "each worker will get a set of files to process" (AutoShardPolicy): every count-th, as Dataset.shard does.
        mine = pipeline.files[worker::count]
        # The shard comes before the reader, so that what is interleaved are the files of this worker.
        stream = interleaved(mine) if "interleave" in pipeline.steps else _only(stream, mine)
    # Of OFF the tutorial says that "each worker will process all the data". HINT replaces nothing without a hint.
    rebatches = rebatched(stream, shares(pipeline.batch, count, devices, worker))
    for start in range(0, len(rebatches), devices):
        parts = tuple(rebatches[start : start + devices])
        yield parts + ((),) * (devices - len(parts))
