"""Write docs/sharding.md from what clusters are given, beside what is documented: `python tools/sharding_table.py`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from harness import strategy_case  # noqa: E402
from scenarios.programs.sharding import contracts  # noqa: E402
from scenarios.programs.sharding.live import Asking, PipelineFailed, asking  # noqa: E402
from scenarios.programs.sharding.pipelines import Pipeline  # noqa: E402

__all__ = ["main", "page"]

PAGE = ROOT / "docs" / "sharding.md"
STRATEGIES = ("mirrored-2", "multi_worker-2", "multi_worker-3", "multi_worker-2x2")
HEADER = """\
# What each worker is given

Twelve examples, 0 to 11, in global batches of 4. Of a worker, one batch follows the other after `;`, the parts of its
replicas stand on both sides of `/`, and `-` is an empty part. `scenarios/test_sharding.py` holds every cell to a
formula of `scenarios/programs/sharding/contracts.py`; this page is written by `python tools/sharding_table.py`.

"documented" is what <https://www.tensorflow.org/tutorials/distribute/input> and the docstrings promise:

- **AUTO**: FILE where a file-based dataset is detected, else DATA. Detected are TFRecord, text and fixed-length
  records, not CSV.
- **FILE**: each worker reads every W-th file. With fewer files than workers, `InvalidArgumentError`: it comes on the
  workers that have a file, while those without one wait for them.
- **DATA**: each worker reads everything and processes its part of each batch. The order must be deterministic: no
  shuffle without a seed.
- **HINT**: `shard(SHARD_HINT, SHARD_HINT)` becomes `shard(W, w)`; without it, as OFF.
- **OFF**: each worker processes everything.

"It is not advisable to depend on the actual values that might end up on each replica", the tutorial adds, and its own
example of FILE shows another division ([0, 1], [2, 3], [4], [5] of a file of six) than TensorFlow 2.21 makes.

CentralStorageStrategy divides as MirroredStrategy does, but drops the end of what is not sharded by element
([`central-storage-last-batch`](known-issues.md)).
"""
CSV = "[`csv-file-sharding`](known-issues.md)"
ACROSS = "[`rebatch-across-batches`](known-issues.md)"


@dataclass(frozen=True)
class Row:
    """One source under one policy and what is documented of it; `only_workers` where one worker shows nothing new."""

    source: str
    pipeline: Pipeline
    documented: str
    only_workers: bool = True


_EVEN = (4, 4, 4)
_UNEVEN = (7, 1, 4)
_PLAIN = "each example once"
ROWS = (
    Row("in memory", Pipeline((12,), 4, policy="AUTO"), _PLAIN, only_workers=False),
    Row("in memory, 11 examples", Pipeline((11,), 4, policy="AUTO"), _PLAIN, only_workers=False),
    Row("in memory", Pipeline((12,), 4, policy="DATA"), _PLAIN),
    Row("in memory", Pipeline((12,), 4, policy="OFF"), "each example W times"),
    Row("in memory, with the hint", Pipeline((12,), 4, policy="HINT", steps=("shard_hint",)), _PLAIN),
    Row("in memory, shuffled without a seed", Pipeline((12,), 4, steps=("shuffle",), seeds=False), "undefined"),
    Row("3 TFRecord files", Pipeline(_EVEN, 4, "tfrecord", policy="AUTO"), _PLAIN, only_workers=False),
    Row("3 TFRecord files", Pipeline(_EVEN, 4, "tfrecord", policy="DATA"), _PLAIN),
    Row("3 TFRecord files", Pipeline(_EVEN, 4, "tfrecord", policy="HINT"), "each example W times"),
    Row("files of 7, 1 and 4", Pipeline(_UNEVEN, 4, "tfrecord", policy="FILE"), "each example once, idle workers"),
    Row("files of 12, 0 and 0", Pipeline((12, 0, 0), 4, "tfrecord", policy="FILE"), "each example once, idle workers"),
    Row("1 TFRecord file", Pipeline((12,), 4, "tfrecord", policy="AUTO"), "InvalidArgumentError"),
    Row("1 TFRecord file", Pipeline((12,), 4, "tfrecord", policy="DATA"), _PLAIN),
    Row(
        "2 files, `batch(4).repeat(2)`",
        Pipeline((3, 3), 4, "tfrecord", ("batch", "repeat")),
        f"the batch of 2 ends each epoch ({ACROSS})",
        only_workers=False,
    ),
    Row("3 CSV files", Pipeline(_EVEN, 4, "csv", policy="AUTO"), f"each example once, by file ({CSV})"),
    Row("3 CSV files", Pipeline(_EVEN, 4, "csv", policy="FILE"), f"each example once, by file ({CSV})"),
    Row(
        "`make_csv_dataset` as it is, no seed",
        Pipeline(_EVEN, 4, "make_csv", ("make_csv_shuffled",), seeds=False),
        f"each example once, by file ({CSV})",
    ),
)
FUNCTIONS = (
    Row("shard, then batch", Pipeline((12,), 4, function="shard_then_batch"), _PLAIN),
    Row("batch, then shard", Pipeline((12,), 4, function="batch_then_shard"), _PLAIN),
    Row("wrong: no shard", Pipeline((12,), 4, function="no_shard"), "the user's"),
    Row("wrong: index 0 everywhere", Pipeline((12,), 4, function="first_shard_everywhere"), "the user's"),
    Row("wrong: batched by the global batch", Pipeline((12,), 4, function="global_batch"), "the user's"),
)
FOOTER = """\

## Smallest wrong pipelines

Found and shrunk by Hypothesis under `multi_worker-2` (`scenarios/test_sharding_drawn.py`):

| mistake | smallest pipeline | what is wrong |
|---|---|---|
| OFF | 1 example, batch 1 | both workers have it |
| no shard in `distribute_datasets_from_function` | 1 example | both workers have it |
| index 0 everywhere | 1 example | both workers have it |
| shuffle without a seed before a shard by element | 2 examples, batch 2 | one twice, one never |
| `drop_remainder` after a shard by file | 2 files of 1 example, batch 2 | neither is seen, one device sees both |

## tf.data service, coordinator

| what | documented | observed |
|---|---|---|
| `distributed_epoch`, DYNAMIC | "will visit every example exactly once" if no worker is restarted | so |
| the same, a worker server killed and replaced | at most once | so; what it had not delivered is lost |
| a worker server killed and not replaced | nothing | clients ask it again and again (more than 25 s here) |
| `parallel_epochs`, OFF | "Each worker produces the entire dataset" | so |
| the same, a worker server killed and replaced | begins from the beginning | so; what had been delivered comes again |
| FILE, DATA, FILE_OR_DATA, HINT | as `AutoShardPolicy`, of one's own server | so; the first to register is shard 0 |
| `create_per_worker_dataset` | no autosharding | each worker reads everything from its beginning |
| the same, from a function | it shards by its `InputContext` | which says pipeline 0 of 1 on every worker |
| the same, shuffled without a seed | workers differ | under `tf.random.set_seed` all have the same order |
"""


def page(ask: Asking) -> str:
    """The whole page; runs every pipeline."""
    parts = [HEADER, "## `experimental_distribute_dataset`\n", *_table(ask, ROWS)]
    return "\n".join([*parts, "\n## `distribute_datasets_from_function`\n", *_table(ask, FUNCTIONS), FOOTER])


def _table(ask: Asking, rows: tuple[Row, ...]) -> Iterator[str]:
    yield "| source | policy | strategy | documented | observed | times each example is seen |"
    yield "|" + "---|" * 6
    for row in rows:
        for strategy in STRATEGIES:
            if row.pipeline.function and row.pipeline.batch % strategy_case(strategy).replicas:
                continue  # InputContext refuses a global batch that replicas do not divide
            if not (row.only_workers and strategy_case(strategy).workers == 1):
                yield _line(ask, row, strategy)


def _line(ask: Asking, row: Row, strategy: str) -> str:
    policy = "" if row.pipeline.function else row.pipeline.policy
    cells = [row.source, policy, f"`{strategy}`", row.documented, *_observed(ask, strategy, row.pipeline)]
    return "| " + " | ".join(cells) + " |"


def _observed(ask: Asking, strategy: str, pipeline: Pipeline) -> tuple[str, str]:
    try:
        seen = contracts.seen(ask(strategy, pipeline))
    except PipelineFailed as failed:
        first = {task: error.partition(":")[0] or "waits" for task, error in failed.errors.items()}
        return "<br>".join(f"{task}: {error}" for task, error in first.items()), ""
    lines = [f"{task}: {'; '.join('/'.join(_part(part) for part in step) for step in seen[task])}" for task in seen]
    ids = [key for steps in seen.values() for step in steps for part in step for key in part]
    counts = sorted({ids.count(key) for key in range(pipeline.total)})
    return "<br>".join(lines), " or ".join(map(str, counts))


def _part(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids)) or "-"


@click.command()
def main() -> None:
    """Bring docs/sharding.md up to date."""
    with asking() as ask:
        PAGE.write_text(page(ask))
    click.echo(f"{PAGE.name}: {len(ROWS) + len(FUNCTIONS)} rows under {len(STRATEGIES)} strategies")


if __name__ == "__main__":
    main()
