"""Verify small programs with one mistake each, and right ones beside them: `python tools/trials.py`."""

from __future__ import annotations

import functools
import sys
import time
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # from a checkout that has not been installed

from tools.trying.cases import trials  # noqa: E402
from tools.trying.running import Result, as_expected, relabelled, result_of  # noqa: E402
from tools.trying.table import section, summary, table  # noqa: E402
from tools.update_tables import filled  # noqa: E402
from tools.working import results_of  # noqa: E402

__all__ = ["main"]

PAGE = ROOT / "docs" / "culprits.md"

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
@click.option("--only", default="*", show_default=True, metavar="GLOB", help="Those whose names match.")
@click.option("--list", "listed", is_flag=True, help="Show their names, and run none.")
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Programs run at the same time.")
@click.option("--explain/--no-explain", default=True, show_default=True, help="As of `lockstep verify`.")
@click.option("--fix", is_flag=True, help="Try cures, as of `lockstep verify`.")
@click.option("--timeout", default=120.0, show_default=True, help="Seconds for each run of a program.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write every result there.")
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
@click.option("--page", is_flag=True, help=f"Write the table into docs/{PAGE.name}.")
def main(
    only: str,
    listed: bool,
    jobs: int,
    explain: bool,
    fix: bool,
    timeout: float,
    json_file: Path | None,
    before_file: Path | None,
    resume: bool,
    page: bool,
) -> None:
    """Verify every program of tools/trying/catalogue.toml, and see whether what Lockstep blames is what is wrong.

    A wrong program has one silent mistake, in a line that is marked `# guilty`. Its verdict has to be inconsistent, and
    the line and the rule that it names, if any, have to be the right ones. A right program has to be consistent.
    """
    chosen = trials(only)
    if not chosen:
        raise click.UsageError(f"--only: no program is called like {only!r}; see --list")
    if listed:
        click.echo("\n".join(trial.name for trial in chosen))
        return
    if json_file is not None and not json_file.parent.is_dir():
        raise click.UsageError(f"--json: there is no directory {json_file.parent}")
    if resume and json_file is None:
        raise click.UsageError("--resume continues a file: give it with --json")
    before = {} if before_file is None else _saved(before_file)
    known = {trial.name: trial for trial in trials()}
    earlier = _saved(json_file) if resume and json_file is not None and json_file.exists() else {}
    done = {
        name: relabelled(result, known[name])
        for name, result in earlier.items()
        if name in known and result.outcome != "failed"
    }
    began, order = time.monotonic(), list(known)
    waiting = [trial for trial in chosen if trial.name not in done]
    others = [done[name] for name in done if name not in {trial.name for trial in chosen}]
    results = [done[trial.name] for trial in chosen if trial.name in done]
    run = functools.partial(result_of, explain=explain, timeout=timeout, fix=fix)
    try:
        for result in results_of(waiting, max(1, min(jobs, len(waiting))), run):
            results.append(result)
            click.echo(_progress(len(results), len(chosen), time.monotonic() - began, result), err=True)
            if json_file is not None:  # after each, so that an interruption loses nothing
                _save(json_file, [*others, *results], order)
    finally:
        results.sort(key=lambda result: order.index(result.name))
        if results:
            click.echo(table(results, before) + "\n\n" + summary(results, before))
    if page:
        PAGE.write_text(filled(PAGE.read_text(), "trials", section(results, before)))
    sys.exit(int(not all(map(as_expected, results))))


def _save(file: Path, results: list[Result], order: list[str]) -> None:
    ordered = sorted(results, key=lambda result: order.index(result.name))
    file.write_bytes(msgspec.json.format(msgspec.json.encode({"results": ordered})) + b"\n")


def _saved(file: Path) -> dict[str, Result]:
    """What `--json` wrote, by the names of the trials."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=dict[str, tuple[Result, ...]])["results"]
    except (msgspec.MsgspecError, KeyError) as error:
        raise click.UsageError(f"{file} is not what --json writes: {error}") from None
    return {result.name: result for result in found}


def _progress(number: int, of: int, seconds: float, result: Result) -> str:
    said = f"culprit {result.blame.culprit}, rule {result.blame.rule}"
    mark = "" if as_expected(result) else "  <- not as it should be"
    named = f" ({result.rule})" if result.rule else ""
    return f"[{number}/{of}, {seconds:.0f} s] {result.name}: {result.outcome}, {said}{named}{mark}"


if __name__ == "__main__":
    main()
