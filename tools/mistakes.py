"""Twenty mistakes and what is said of them, of what the trials have left: `python tools/mistakes.py trials.json`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill, packages  # noqa: E402
from tools.running import saved  # noqa: E402
from tools.trying.running import Result  # noqa: E402

PAGE = DOCS / "mistakes.md"
_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(file: Path) -> None:
    """Write docs/mistakes.md of FILE, which `tools/trials.py --json FILE` has written."""
    fill(PAGE, "mistakes", section(saved(file, Result)))


def section(results: Sequence[Result]) -> str:
    """How long diagnostics are, and twenty of them: no mistake twice, and as many codes as there are."""
    wrong = [result for result in results if result.mistake and result.outcome == "inconsistent"]
    lengths = [len(result.diagnostic.splitlines()) for result in wrong]
    shown = _chosen(wrong)
    told = (
        f"Measured with {packages()}. The diagnostics of {len(wrong)} trials have {statistics.median(lengths):g} lines "
        f"in the median, and {max(lengths)} at most. Here are {len(shown)} of them."
    )
    parts = [f"## {_titled(each)}\n\n`{each.name}`\n\n```text\n{each.diagnostic}\n```" for each in shown]
    return "\n\n".join([told, *parts])


def _chosen(wrong: Sequence[Result]) -> list[Result]:
    mistakes = {result.mistake: result for result in reversed(wrong)}
    first = {_code(result): result for result in mistakes.values()}
    more = [result for result in reversed(mistakes.values()) if first[_code(result)] is not result]
    return sorted([*first.values(), *more][:_SHOWN], key=wrong.index)


def _code(result: Result) -> str:
    return result.diagnostic.partition("]")[0]


def _titled(result: Result) -> str:
    mistake = result.mistake or ""
    return mistake[:1].upper() + mistake[1:]


if __name__ == "__main__":
    main()
