"""Write the tables of docs/sharding.md, of observed beside documented examples: `python tools/sharding_table.py`."""

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
from tools.pages import fill  # noqa: E402

PAGE = ROOT / "docs" / "sharding.md"
STRATEGIES = ("mirrored-2", "multi_worker-2", "multi_worker-3", "multi_worker-2x2")
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


def table(ask: Asking) -> str:
    """A row for each source, policy and strategy; runs every pipeline."""
    parts = ["## `experimental_distribute_dataset`\n", *_table(ask, ROWS)]
    return "\n".join([*parts, "\n## `distribute_datasets_from_function`\n", *_table(ask, FUNCTIONS)])


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
        fill(PAGE, "sharding", table(ask))
    click.echo(f"{PAGE.name}: {len(ROWS) + len(FUNCTIONS)} rows under {len(STRATEGIES)} strategies")


if __name__ == "__main__":
    main()
