"""Verify small programs with one mistake each, and right ones beside them: `python tools/trials.py`."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.pages import DOCS, fill  # noqa: E402
from tools.running import at_once, json_file, named, only, saved, to_page, track  # noqa: E402
from tools.trying.cases import trials  # noqa: E402
from tools.trying.running import Result, as_expected, relabelled, result_of  # noqa: E402
from tools.trying.table import section, summary, table  # noqa: E402

PAGE = DOCS / "culprits.md"

EPILOG = """\b
Examples:
  python tools/trials.py --only 'plain_variables:*'        # the programs of one file
  python tools/trials.py --only '*:right*' --list          # which there are
  python tools/trials.py --json trials.json --before tools/trying/before.json --page
\b
Exit codes: 0 as it should be; 1 something right was accused, something wrong was not found, or it was named wrongly;
2 usage error.
"""


@click.command(epilog=EPILOG)
@only
@click.option("--list", "listed", is_flag=True, help="Show their names, and run none.")
@at_once(2)
@click.option("--explain/--no-explain", default=True, show_default=True, help="As of `lockstep verify`.")
@click.option("--fix", is_flag=True, help="Try cures, as of `lockstep verify`.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds for each run of a program.")
@json_file
@click.option(
    "--before",
    "before_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What --json wrote of an earlier run, for a column next to this one.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Keep what the file of --json has, and run only what it lacks or what failed.",
)
@to_page(PAGE)
def main(
    only: str,
    listed: bool,
    jobs: int,
    explain: bool,
    fix: bool,
    timeout: float,
    file: Path | None,
    before_file: Path | None,
    resume: bool,
    page: bool,
) -> None:
    """Verify every program of tools/trying/catalogue.toml, and see whether what Lockstep blames is what is wrong.

    A wrong program has one silent mistake, in a line that is marked `# guilty`. Its verdict has to be inconsistent, and
    the line and the rule that it names, if any, have to be the right ones. A right program has to be consistent.
    """
    chosen = named(trials(only), only)
    if listed:
        click.echo("\n".join(trial.name for trial in chosen))
        return
    if resume and file is None:
        raise click.UsageError("--resume continues a file: give it with --json")
    before = {} if before_file is None else {result.name: result for result in saved(before_file, Result)}
    run = functools.partial(result_of, explain=explain, timeout=timeout, fix=fix)
    known = _known(file) if resume and file is not None and file.exists() else []
    results = track(chosen, run, jobs, _said, file=file, known=known)
    click.echo(table(results, before) + "\n\n" + summary(results, before))
    if page:
        fill(PAGE, "trials", section(results, before))
    sys.exit(int(not all(map(as_expected, results))))


def _known(file: Path) -> list[Result]:
    """Earlier results, as what the catalogue and the programs say by now; those that failed are made again."""
    now = {trial.name: trial for trial in trials()}
    earlier = [result for result in saved(file, Result) if result.name in now and result.outcome != "failed"]
    return [relabelled(result, now[result.name]) for result in earlier]


def _said(result: Result) -> str:
    mark = "" if as_expected(result) else "  <- not as it should be"
    rule = f" ({result.rule})" if result.rule else ""
    return f"{result.outcome}, culprit {result.blame.culprit}, rule {result.blame.rule}{rule}{mark}"


if __name__ == "__main__":
    main()
