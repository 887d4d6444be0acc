"""Plant faults in watched trainings, and count which of them the judge finds: `python tools/planted.py`."""

from __future__ import annotations

import sys
from fnmatch import fnmatchcase
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill  # noqa: E402
from tools.planting.cases import KINDS, OF_COPIES, cases  # noqa: E402
from tools.planting.running import Result, result_of  # noqa: E402
from tools.running import json_file, named, only, saved, to_page, track  # noqa: E402

PAGE = DOCS / "live.md"
_WHAT = {
    "weight": "a bit of a weight, after a step",
    "gradient": "a bit of a gradient, in a judged step",
    "reduction": "a bit of what one replica gets of a reduction",
    "file": "a bit of a file of evidence",
    "rate": "another learning rate, from a step on",
    "shard": "a shard that is read twice",
    "statistics": "statistics that are lost in a restart",
    "healthy": "nothing, in 1,000 steps",
}

EPILOG = """\b
Examples:
  python tools/planted.py --only 'weight-*'
  python tools/planted.py --json planted.json --page     # goes on where it was ended
\b
Exit codes: 0 nothing was found in healthy trainings; 1 something was; 2 usage error.
"""


@click.command(epilog=EPILOG)
@only
@json_file
@to_page(PAGE)
def main(only: str, file: Path | None, page: bool) -> None:
    """Watch trainings with one planted fault each, and healthy ones, one after another; a judge looks for the faults.

    Results that are in the file of --json already are not made again.
    """
    every = cases()
    known = saved(file, Result) if file is not None and file.exists() else []
    chosen = named([case for case in every if fnmatchcase(case.name, only)], only)
    track(chosen, result_of, 1, _said, file=file, known=known)
    results = saved(file, Result) if file is not None else known
    click.echo(table(results))
    if page:
        fill(PAGE, "planted", table(results))
    sys.exit(int(any(each.found for each in results if each.kind == "healthy")))


def _said(result: Result) -> str:
    return f"found {result.found}, step {result.step}, replica {result.replica}; {'; '.join(result.said)[:200]}"


def table(results: list[Result]) -> str:
    """What was found, by kind."""
    lines = ["| planted | runs | found | step right | replica right |", "|---|---|---|---|---|"]
    rows = [*((kind, 2) for kind in KINDS), *((kind, 3) for kind in OF_COPIES), ("healthy", 2)]
    for kind, replicas in rows:
        of = [each for each in results if (each.kind, each.replicas) == (kind, replicas)]
        counts = [sum(each.found and getattr(each, which) for each in of) for which in ("found", "step", "replica")]
        shown = [str(counts[0]), "", ""] if kind == "healthy" else list(map(str, counts))
        what = _WHAT[kind] if replicas == 2 else f"{_WHAT[kind]}, of {replicas} replicas"
        lines.append(f"| {' | '.join((what, str(len(of)), *shown))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
